/** Name that represents graphs among the operators, here and in the server's counters. */
export const GRAPH = "GRAPH";
