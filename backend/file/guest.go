package file

import (
	"time"

	"pvdrm/gem/quota"
)

// DefaultCompileTime is how long a module may compile unless Guest.SetCompileTime says otherwise.
const DefaultCompileTime = 10 * time.Second

// Guest holds what the files of one guest share: quotas, turns for the compiler, and the memory and
// events that they open by keys. The zero
// value has the default limits. It may be used from any goroutine.
type Guest struct {
	quota.Set
	compiler compiler
	shares   shares
	lender   Lender // nil: the guest has one device
}

// SetLimits bounds what the guest may have. It must be called before its first file.
func (g *Guest) SetLimits(l quota.Limits) { g.Set.SetLimits(withDefaults(l)) }

// SetCompileTime bounds how long each module may compile. It must be called before the guest's
// first file.
func (g *Guest) SetCompileTime(limit time.Duration) { g.compiler.limit = limit }

func (g *Guest) compileLimit() time.Duration {
	if g.compiler.limit > 0 {
		return g.compiler.limit
	}
	return DefaultCompileTime
}
