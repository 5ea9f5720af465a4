import { OperatorPage } from "../views/operator.js";
import { start } from "../views/shell.js";

start("operator", OperatorPage);
