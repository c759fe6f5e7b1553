//go:build race

package tests

// unwatched matches the tests of machines and of programs, which run other binaries than the one that the race detector
// watches, and those that read the tree. A run that names no tests leaves them out.
const unwatched = "VirtualMachine|InAMachine|MemoryOfABackend|KilledAtAnyTime|Guest|Console|^TestUp|Suite|Doctor|Usage|Socket|" +
	"RunPasses|NoSecrets|Ablation|FairnessBenchmark|SeveralMachines|MachinesOfSeveral|Confined|StandIn|CompiledElsewhere|" +
	"StaticRuntime|RuntimeABI|PoolShows|ShareACard|PartsHaveSeats|GLoopMachine|GLoopLocal|" +
	"^TestBench|^TestRun(With|Finds|Leads|Says|books)|^TestStats$|GdevCounters|SharedFile|PeersThatAreNone|SharesBesideKernels|RootOfTheHost|" +
	"InterposedComputation|ProgramsAreRecorded|TraceOfACProgram|ClosingLines|" +
	"^TestCheck$|^TestArrows|^TestHouse$|^TestSpace$|^TestTemporary"
