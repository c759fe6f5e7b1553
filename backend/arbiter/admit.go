package arbiter

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/backend/sched"
)

// Admission is the identity and share with which a guest is admitted.
type Admission struct {
	Share sched.Share
	// Needs are the amounts of the GPU's channels, contexts and memory that the guest is to be
	// promised, where the arbiter limits them; see Limits.
	Needs Amounts
	// Payer names the owner of the guest's debts. The debt of a guest that leaves passes to
	// the next guest of the same payer, whatever its name.
	Payer string
}

// SameUser admits guests that root or the user who runs the arbiter has started, with the
// shares that they wish for. The user pays for all of them.
func SameUser(p Peer, h Hello) (Admission, error) {
	if !ownUser(p.UID) {
		return Admission{}, fmt.Errorf("process %d is of user %d; the arbiter serves user %d: %w", p.PID, p.UID, os.Getuid(), unix.EACCES)
	}
	return Admission{Share: h.Share, Needs: h.Needs, Payer: fmt.Sprintf("user %d", p.UID)}, nil
}

// ownUser reports whether a process of a user may do all that the arbiter's own may.
func ownUser(uid uint32) bool { return uid == 0 || uid == uint32(os.Getuid()) }
