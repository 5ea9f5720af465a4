import { start } from "../views/shell.js"; start("live", () => null);
