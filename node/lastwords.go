package node

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/node/logs"
)

// The limits of last words (API doc of terminationMessagePath), and of the log tail that may stand in for them.
const (
	maxWords    = 4096
	maxAllWords = 12 << 10 // of all containers of a pod, each of which has an equal part
	maxTail     = 2048
	maxTailLine = 80
)

// terminated tells of a container's end.
//
// Unlike Kubernetes, one that could not be started did not begin in 1970.
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
	count := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	if most := maxAllWords / max(count, 1); len(t.Message) > most {
		t.Message = strings.ToValidUTF8(t.Message[:most], "")
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
// a word and the policy says so. They are text, whatever the container wrote.
func (m *statuses) words(pod *corev1.Pod, c *container) string {
	text := endOf(m.lastWords(pod, c.name, c.restarts), maxWords)
	if text == "" && c.exit != 0 && c.notes[notePolicy] == string(corev1.TerminationMessageFallbackToLogsOnError) {
		if time.Since(c.done) < logs.Settling {
			logs.Settled(context.Background(), c.log)
		}
		text = logTail(c.log)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// endOf reads the end of a file; what can't be read is empty. A container may have made its file as large as it likes.
func endOf(path string, most int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
	if err != nil {
		return ""
	}
	return string(text)
}

// partial is the tag of a line that goes on in the next, or that the container never ended.
const partial = "P"

// logTail is the end of a CRI log: its lines are «time stream tag text».
func logTail(path string) string {
	const window = 64 << 10
	lines := strings.Split(strings.TrimRight(endOf(path, window), "\n"), "\n")
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
