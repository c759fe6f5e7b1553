package drm

// Question is what only the driver of the GPU can answer.
type Question uint32

// Questions, with their values and the answer's. All are in the order of cuda.h's functions.
const (
	// AskTensorMap encodes a tensor map: 1 for one of im2col, the type, rank, address, interleave, swizzle, promotion and
	// fill; channels and pixels; 5 dimensions, 5 strides, of which the first stands for nothing, 5 boxes, 5 steps, and 3
	// lower and 3 upper corners. The answer is the map.
	AskTensorMap Question = iota + 1
	// AskClusters asks how many clusters of a launch of the function run at the same time: grid, block and cluster, 3
	// values each, and the bytes of dynamic .shared. AskClusterSize asks how many blocks a cluster may have at most.
	AskClusters
	AskClusterSize
	// AskFree asks how many bytes of device memory nobody has, of this guest or another. It has no values.
	AskFree
)

// MaxQuestion bounds the values of a question and of its answer.
const MaxQuestion = 64

// Asker is a File whose driver answers questions. Function is 0 where the question is about none; EINVAL for what
// the driver refuses.
type Asker interface {
	Ask(q Question, function uint32, values []uint64) ([]uint64, error)
}
