// Package live draws a cluster on a terminal: what is not what it should be, by whose move it is; nodes by how full they are;
// workloads that roll out; the last events. Frame is a pure function of what was gathered.
package live

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// A State holds all that a frame shows.
type State struct {
	Title   string // of the cluster
	At      time.Time
	Gaps    []*convergence.Gap // the worst first
	Nodes   []Node
	Work    []Workload
	Events  []Event // the newest first
	Trouble string  // why some of it may be old; "": nothing is
}

// A Node tells how full a node is: shares of what it can give, from 0 to 1, that its pods ask for.
type Node struct {
	Name        string
	State       string // Ready, NotReady or Cordoned
	Pods, Room  int
	CPU, Memory float64
}

// A Workload tells how far a rollout has got.
type Workload struct {
	Name                 string // namespace/kind/name
	Want, Updated, Ready int32
	Done                 bool
}

// An Event says something of an object.
type Event struct {
	At             time.Time
	Warning        bool
	Object, Reason string
	Text           string
}

// A Look has the size of the screen, and the filter.
type Look struct {
	Width, Height int
	Filter        string // only lines with this text, whatever their case
	Typing        bool   // the filter is being typed
}

// Frame draws: as many lines as the look has height, none wider than it.
func Frame(s *State, l Look) []string {
	lines := []string{head(s, l)}
	sections := []struct {
		title string
		rows  []string
		share int // of all rows, in percent
	}{
		{gapTitle(s.Gaps), gapRows(s), 35},
		{fmt.Sprintf("NODES %d", len(s.Nodes)), nodeRows(s.Nodes), 20},
		{workTitle(s.Work), workRows(s.Work), 25},
		{"EVENTS", eventRows(s), 20},
	}
	room := max(0, l.Height-2)
	left := room
	for i, sec := range sections {
		rows := matching(sec.rows, l.Filter)
		most := max(2, room*sec.share/100)
		if i == len(sections)-1 {
			most = left
		}
		most = min(most, left)
		if most < 2 {
			break
		}
		lines = append(lines, sec.title)
		shown := rows[:min(len(rows), most-1)]
		if len(shown) < len(rows) && len(shown) > 0 {
			shown = append(shown[:len(shown)-1:len(shown)-1], fmt.Sprintf("  … and %d more", len(rows)-len(shown)+1))
		}
		lines = append(lines, shown...)
		left -= 1 + len(shown)
	}
	for len(lines) < l.Height-1 {
		lines = append(lines, "")
	}
	lines = append(lines, foot(l))
	lines = lines[:min(len(lines), max(1, l.Height))]
	for i := range lines {
		lines[i] = clip(lines[i], l.Width)
	}
	return lines
}

func head(s *State, l Look) string {
	text := fmt.Sprintf("%s  %s  %d gaps", s.Title, s.At.Format(time.TimeOnly), len(s.Gaps))
	if l.Filter != "" {
		text += "  /" + l.Filter
	}
	if s.Trouble != "" {
		text += "  ! " + s.Trouble
	}
	return text
}

func foot(l Look) string {
	if l.Typing {
		return "/" + l.Filter + "_   enter: take it, esc: all"
	}
	return "q: quit   /: filter   kloop why KIND/NAME explains one"
}

// gapTitle counts gaps by whose move it is, the busiest first.
func gapTitle(gaps []*convergence.Gap) string {
	counts := map[string]int{}
	for _, g := range gaps {
		counts[g.Owner]++
	}
	var owners []string
	for o := range counts {
		owners = append(owners, o)
	}
	coldsort.Func(owners, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, o := range owners {
		owners[i] = fmt.Sprintf("%s %d", o, counts[o])
	}
	title := fmt.Sprintf("GAPS %d", len(gaps))
	if len(owners) > 0 {
		title += ": " + strings.Join(owners, ", ")
	}
	return title
}

func gapRows(s *State) (rows []string) {
	for _, g := range s.Gaps {
		where := ""
		if g.Object.Namespace != "" {
			where = g.Object.Namespace + ": "
		}
		rows = append(rows, fmt.Sprintf("  %-11s %5s  %s%s", g.State, age(s.At, g.Since.Time), where, g.Verdict))
	}
	return rows
}

func nodeRows(nodes []Node) (rows []string) {
	for _, n := range nodes {
		rows = append(rows, fmt.Sprintf("  %-18s %-8s pods %4d/%-4d cpu %s mem %s", n.Name, n.State, n.Pods, n.Room, bar(n.CPU), bar(n.Memory)))
	}
	return rows
}

// bar draws a share in six steps.
func bar(share float64) string {
	full := min(6, max(0, int(share*6+0.5)))
	return fmt.Sprintf("[%s%s]%3.0f%%", strings.Repeat("#", full), strings.Repeat(".", 6-full), share*100)
}

func workTitle(work []Workload) string {
	rolling := 0
	for _, w := range work {
		if !w.Done {
			rolling++
		}
	}
	return fmt.Sprintf("WORKLOADS %d, %d not there yet", len(work), rolling)
}

func workRows(work []Workload) (rows []string) {
	for _, w := range work {
		mark := " "
		if !w.Done {
			mark = "*"
		}
		rows = append(rows, fmt.Sprintf("%s %-44s new %3d/%-3d ready %3d/%-3d", mark, w.Name, w.Updated, w.Want, w.Ready, w.Want))
	}
	return rows
}

func eventRows(s *State) (rows []string) {
	for _, e := range s.Events {
		mark := " "
		if e.Warning {
			mark = "!"
		}
		rows = append(rows, fmt.Sprintf("%s %5s %s %s: %s", mark, age(s.At, e.At), e.Object, e.Reason, strings.Join(strings.Fields(e.Text), " ")))
	}
	return rows
}

func age(now, at time.Time) string { return duration.HumanDuration(now.Sub(at)) }

func matching(rows []string, filter string) (out []string) {
	if filter == "" {
		return rows
	}
	for _, r := range rows {
		if strings.Contains(strings.ToLower(r), strings.ToLower(filter)) {
			out = append(out, r)
		}
	}
	return out
}

// clip cuts a line to a width, and leaves out what would move the cursor.
func clip(line string, width int) string {
	out := make([]rune, 0, width)
	for _, r := range line {
		if len(out) == width {
			break
		}
		if r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) {
			out = append(out, r)
		}
	}
	return string(out)
}

// Press returns the look after a key; quit says that it was one that ends it.
func (l Look) Press(key byte) (next Look, quit bool) {
	const escape, backspace, interrupt = 0x1b, 0x7f, 3
	switch {
	case key == interrupt:
		return l, true
	case !l.Typing && key == 'q':
		return l, true
	case !l.Typing && key == '/':
		l.Typing, l.Filter = true, ""
	case key == escape:
		l.Typing, l.Filter = false, ""
	case !l.Typing:
	case key == '\r' || key == '\n':
		l.Typing = false
	case key == backspace || key == '\b':
		l.Filter = l.Filter[:max(0, len(l.Filter)-1)]
	case key >= ' ' && key < 0x7f && len(l.Filter) < 60:
		l.Filter += string(rune(key))
	}
	return l, false
}
