package ptx

// Bounds on what Parse accepts. They keep the memory of a module from growing
// far beyond its source; each is many times what compilers emit.
const (
	MaxSource      = 64 << 20 // bytes of source
	MaxStatements  = 1 << 20  // statements of all function bodies
	MaxOperands    = 1 << 22  // operands of all instructions
	MaxVariables   = 1 << 19  // variables, registers, ranges and parameters
	MaxDirectives  = 1 << 17  // directives at module scope
	MaxInitialiser = 1 << 22  // elements of all initialisers
	MaxScopes      = 16       // nesting of braces in bodies
	MaxNesting     = 64       // nesting of initialisers and expressions
	MaxDims        = 8        // dimensions of an array
	MaxVarBytes    = 1 << 40  // size of one variable
	MaxDiagnostics = 20       // complaints before giving up
	maxName        = 12 << 10 // bytes of one name
)
