// Is linked to a library that has the static runtime in it, whose constructors run first.
int library_main(void);

int main(void) { return library_main(); }
