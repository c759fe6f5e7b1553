package supervisor

import (
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// What a child logs of one message in sampleEvery: the first sampleFirst of them, and then one in
// sampleThen. A guest that provokes a message again and again costs its backend a counter, not a
// system call each time.
const (
	sampleEvery = 10 * time.Second
	sampleFirst = 50
	sampleThen  = 1000
)

// ChildLogger makes the logger of a child: JSON lines of at least the given level to standard error,
// which the parent reads.
func ChildLogger(level zapcore.Level) *zap.Logger {
	to := zapcore.Lock(os.Stderr)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), to, level)
	return zap.New(sample(core))
}

// sample lets part of the messages through.
func sample(core zapcore.Core) zapcore.Core {
	return zapcore.NewSamplerWithOptions(core, sampleEvery, sampleFirst, sampleThen)
}
