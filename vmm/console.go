package vmm

import (
	"io"
	"regexp"
	"strings"
	"sync"
)

// consoleTail is how much of the console is kept for error messages, in bytes.
const consoleTail = 16 << 10

// console passes on the output of the guest's serial line, and keeps the end of it. It is
// written by one goroutine and read by any.
type console struct {
	mu   sync.Mutex
	tail []byte
	to   io.Writer // nil once it has failed: a guest does not depend on its audience
}

// Write implements io.Writer. It does not fail.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.tail = append(c.tail, p...)
	if cut := len(c.tail) - consoleTail; cut > 0 {
		c.tail = append(c.tail[:0], c.tail[cut:]...)
	}
	to := c.to
	c.mu.Unlock()
	if to != nil {
		// Without the lock: a slow audience must not block who looks for a panic.
		if _, err := to.Write(p); err != nil {
			c.mu.Lock()
			c.to = nil
			c.mu.Unlock()
		}
	}
	return len(p), nil
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.tail)
}

// escapes are terminal control sequences (ECMA-48, CSI) and what else would spoil a message.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|[^\t\n -~]")

// lastLines returns the last n lines that say something, fit to be printed: what the guest writes is
// not trusted with a terminal.
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(escapes.ReplaceAllString(s, "")) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, "  | "+line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

var panicPattern = regexp.MustCompile(`Kernel panic - not syncing: ([^\r\n]*)`)

// panicked returns the guest kernel's last words and the console up to them, nothing where it has said
// none: what follows them is a dump of registers.
func (c *console) panicked() (words, before string) {
	text := c.text()
	m := panicPattern.FindStringSubmatchIndex(text)
	if m == nil {
		return "", ""
	}
	return escapes.ReplaceAllString(text[m[2]:m[3]], ""), text[:m[1]]
}
