// Element types of cumulative operators.

typedef INPUT Input;
typedef OUTPUT Output;
