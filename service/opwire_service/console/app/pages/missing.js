import { Missing } from "../views/missing.js";
import { start } from "../views/shell.js";

start("missing", Missing);
