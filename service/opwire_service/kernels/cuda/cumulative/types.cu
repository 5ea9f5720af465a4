// The element types of running values.

typedef INPUT Input;
typedef OUTPUT Output;
