import { Explorer } from "../views/explorer.js";
import { start } from "../views/shell.js";

start("index", Explorer);
