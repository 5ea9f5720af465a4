"""Elements that are moved, converted, picked and chosen on a card."""
