package node

import (
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits of last words (API doc of terminationMessagePath), and of the log tail that may stand in for them.
const (
	maxWords    = 4096
	maxTail     = 2048
	maxTailLine = 80
)

func (m *statuses) terminated(pod *corev1.Pod, c *container) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{ExitCode: c.exit, Reason: c.reason, StartedAt: seconds(c.began),
		FinishedAt: seconds(c.done), ContainerID: m.cfg.Runtime.ContainerID(c.id), Message: m.words(pod, c)}
	if t.Reason == "" {
		t.Reason = "Error"
		if c.exit == 0 {
			t.Reason = "Completed"
		}
	}
	if t.Message == "" && c.message != "" {
		t.Message = c.message
	}
	return t
}

// seconds is the time as it comes back from the API, which keeps no parts of a second: what was written and what is true compare
// equal.
func seconds(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Truncate(time.Second))
}

// words returns the container's termination message; or the end of its log, if it failed without
// a word and the policy says so.
func (m *statuses) words(pod *corev1.Pod, c *container) string {
	text, err := os.ReadFile(m.lastWords(pod, c.name, c.restarts))
	if err == nil && len(text) > 0 {
		return string(text[:min(len(text), maxWords)])
	}
	if c.exit == 0 || c.notes[notePolicy] != string(corev1.TerminationMessageFallbackToLogsOnError) {
		return ""
	}
	return logTail(c.log)
}

// partial is the tag of a line that goes on in the next, or that the container never ended.
const partial = "P"

// logTail is the end of a CRI log: its lines are «time stream tag text».
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	const window = 64 << 10
	buf := make([]byte, min(info.Size(), window))
	if _, err := f.ReadAt(buf, info.Size()-int64(len(buf))); err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(buf), "\n"), "\n")
	lines = lines[max(0, len(lines)-maxTailLine):]
	var b strings.Builder
	for _, l := range lines {
		if parts := strings.SplitN(l, " ", 4); len(parts) == 4 {
			b.WriteString(parts[3])
			if parts[2] != partial {
				b.WriteByte('\n')
			}
		}
	}
	out := b.String()
	return out[max(0, len(out)-maxTail):]
}
