package supervisor

import "time"

// What one guest may have its host write to its log, in bytes. Together it is less than a megabyte
// in any hour: what both buckets hold and what flows into them in 3,600 s are 838,144 bytes, and
// notices of dropped messages, one each minute of at most noticeBytes, are 18,000 more.
const (
	usualBytes  = 192 << 10
	usualRate   = 120 // a second
	urgentBytes = 64 << 10
	urgentRate  = 40 // a second

	noticeEvery = time.Minute
	noticeBytes = 300
)

// bucket holds bytes that flow in at a rate and are taken out.
type bucket struct {
	most int64 // it holds at most; it begins full
	rate int64 // a second

	held int64
	at   time.Time // when held was right; zero before the first use
}

// fill adds what has flowed in. A fraction of a byte is not lost: at moves by whole bytes only.
func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.held, b.at = b.most, now
		return
	}
	elapsed := now.Sub(b.at)
	if elapsed <= 0 {
		return
	}
	if elapsed >= time.Duration((b.most/b.rate+1)*int64(time.Second)) {
		b.held, b.at = b.most, now
		return
	}
	n := int64(elapsed) * b.rate / int64(time.Second)
	b.held = min(b.held+n, b.most)
	b.at = b.at.Add(time.Duration(n * int64(time.Second) / b.rate))
}

// take takes n bytes out, if they are there.
func (b *bucket) take(now time.Time, n int64) bool {
	b.fill(now)
	if n > b.held {
		return false
	}
	b.held -= n
	return true
}

// wait is how long it takes until n bytes more than are there have flowed in, and takes them: for
// those who wait instead of going without.
func (b *bucket) wait(now time.Time, n int64) time.Duration {
	b.fill(now)
	b.held -= n
	if b.held >= 0 {
		return 0
	}
	return time.Duration(-b.held * int64(time.Second) / b.rate)
}

// budget decides which messages of a guest are written. It is pure: the time is an argument. Part of it
// is for urgent ones only, so that a crash is seen after a flood of warnings.
type budget struct {
	usual, urgent bucket

	dropped uint64    // since the last notice
	noticed time.Time // when that was
}

func newBudget() budget {
	return budget{usual: bucket{most: usualBytes, rate: usualRate}, urgent: bucket{most: urgentBytes, rate: urgentRate}}
}

// take reports whether a message of n bytes may be written, and counts it if not.
func (b *budget) take(now time.Time, n int, urgent bool) bool {
	if b.usual.take(now, int64(n)) || urgent && b.urgent.take(now, int64(n)) {
		return true
	}
	b.dropped++
	return false
}

// spent reports whether no message of n bytes could be written, and counts one that is dropped if
// so: it saves looking at it.
func (b *budget) spent(now time.Time, n int) bool {
	b.usual.fill(now)
	b.urgent.fill(now)
	if max(b.usual.held, b.urgent.held) >= int64(n) {
		return false
	}
	b.dropped++
	return true
}

// notice returns how many messages were dropped, if it is time to tell that. last says that there
// will be no other time.
func (b *budget) notice(now time.Time, last bool) (dropped uint64, due bool) {
	if b.dropped == 0 || !last && !b.noticed.IsZero() && now.Sub(b.noticed) < noticeEvery {
		return 0, false
	}
	dropped, b.dropped, b.noticed = b.dropped, 0, now
	return dropped, true
}
