package nvidia

import (
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// words makes the operations of streams on words.
func (f *fake) words(d *driver) {
	d.streamWriteValue32 = func(s uintptr, at uint64, v uint32) result {
		return f.enqueue(s, func() result {
			atomic.StoreUint32((*uint32)(address(at)), v) // the fence, in the lane
			return resultOK
		})
	}
	d.streamWriteValue64 = func(s uintptr, at, v uint64) result {
		return f.enqueue(s, func() result {
			atomic.StoreUint64((*uint64)(address(at)), v) // which the backend has checked
			return resultOK
		})
	}
	d.streamWaitValue = func(s uintptr, at, v uint64, size, condition uint32) result {
		wait := gpu.Word{Value: v, Size: size, Op: gpu.WaitGreaterEqual + gpu.WordOp(condition)}
		return f.enqueue(s, func() result {
			for {
				word := uint64(atomic.LoadUint32((*uint32)(address(at))))
				if size == 8 {
					word = atomic.LoadUint64((*uint64)(address(at)))
				}
				if wait.Holds(word) {
					return resultOK
				}
				time.Sleep(20 * time.Microsecond)
			}
		})
	}
}
