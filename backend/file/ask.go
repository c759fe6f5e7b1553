package file

import (
	"fmt"
	"syscall"

	"pvdrm/drm"
	"pvdrm/gpu"
)

// questions are those of drm in the device's terms.
var questions = map[drm.Question]gpu.Question{
	drm.AskTensorMap: gpu.AskTensorMap, drm.AskClusters: gpu.AskClusters, drm.AskClusterSize: gpu.AskClusterSize,
	drm.AskFree: gpu.AskFree,
}

// Ask asks the device's driver. The answer has at most drm.MaxQuestion values.
func (f *File) Ask(q drm.Question, function uint32, values []uint64) ([]uint64, error) {
	on, ok := f.ctx.(gpu.Asker)
	asked, known := questions[q]
	if !ok || !known || len(values) > drm.MaxQuestion {
		return nil, fmt.Errorf("question %d, which the device does not answer: %w", q, syscall.EOPNOTSUPP)
	}
	var fn gpu.Function
	if function != 0 {
		var err error
		if fn, err = f.functions.Get(function); err != nil {
			return nil, err
		}
	}
	answer, err := on.Ask(asked, fn, values)
	return answer[:min(len(answer), drm.MaxQuestion)], err
}
