import { start } from "../views/shell.js";
import { Try } from "../views/try.js";

start("try", Try);
