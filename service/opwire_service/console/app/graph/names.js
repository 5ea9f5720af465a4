/** What stands for graphs among the operators, here and in what the server counts. */
export const GRAPH = "GRAPH";
