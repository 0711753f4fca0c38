package loop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kloop-dev/kloop/internal/golden"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// seen is a state of the cluster of which only the revision matters.
type seen struct {
	resource.Reader
	rev int64
}

func (s seen) Revision(resource.Kind) int64 { return s.rev }

// A desk runs the commands of testdata/queue.txt.
type desk struct {
	q     *queue
	now   time.Time
	taken map[string]*entry
}

// TestQueue plays testdata/queue.txt: what is handed out when, and where every key is then. Pauses are in the middle of their spread.
func TestQueue(t *testing.T) {
	d := &desk{now: time.Unix(0, 0), taken: map[string]*entry{}}
	d.q = newQueue(Env{})
	d.q.now = func() time.Time { return d.now }
	d.q.luck = func(n int64) int64 { return n / 2 }
	golden.Run(t, "testdata/queue.txt", func(line string) string { return d.do(strings.Fields(line)) + d.states() })
}

func (d *desk) do(words []string) string {
	command, arg := words[0], strings.Join(words[1:min(2, len(words))], "")
	switch command {
	case "wake":
		d.q.wake(Key{Kind: kinds.Pods, Name: arg}, cause(words[min(2, len(words)):]))
	case "take":
		e, sleep := d.q.take()
		if e == nil {
			return fmt.Sprintf("nothing for %v\n", sleep)
		}
		d.taken[e.key.Name] = e
		return "hands out " + e.key.Name + "\n"
	case "hold":
		d.q.hold(d.taken[arg])
	case "finish":
		d.q.finish(d.taken[arg], result(words[2:]))
	case "pass":
		d.now = d.now.Add(span(arg))
	case "see":
		d.q.caughtUp(seen{rev: int64(span(arg + "ns"))})
	default:
		panic("no command " + command)
	}
	return ""
}

// cause is of a change that has a revision, or of none.
func cause(words []string) Cause {
	if len(words) == 0 {
		return Cause{Why: "change"}
	}
	return Cause{Why: "change", Kind: kinds.Pods, Rev: int64(span(words[0] + "ns"))}
}

// result reads how a pass ended.
func result(words []string) (o outcome) {
	for _, w := range words {
		switch what, arg, _ := strings.Cut(w, "="); what {
		case "failed":
			o.err = errors.New(w)
		case "gone":
			o.gone = true
		case "again":
			o.again = span(arg)
		case "rest":
			o.rest = span(arg)
		case "wrote":
			o.wrote = map[resource.Kind]int64{kinds.Pods: int64(span(arg + "ns"))}
		default:
			panic("no outcome " + w)
		}
	}
	return o
}

func span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// states tells where every key is.
func (d *desk) states() string {
	var list []string
	for _, k := range slices.SortedFunc(maps.Keys(d.q.keys), compareKeys) {
		e := d.q.keys[k]
		text := k.Name + " " + [...]string{"rests", "is queued", "waits", "is fenced", "runs"}[e.state]
		if e.state == waiting {
			text += fmt.Sprintf(" %v", e.due.Sub(d.now))
		}
		if e.state == running && e.dirty {
			text += ", is to be looked at again"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}
