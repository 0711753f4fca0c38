package past

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/history"
	"github.com/kloop-dev/kloop/trail"
)

// A group is a request of somebody from outside, and what followed from it.
type group struct {
	root  *Root // nil: nobody knows of one
	by    string
	steps []*Step
}

// grouped sorts steps by what they followed from, in the order of the requests.
func grouped(steps []Step) (list []*group) {
	at := map[string]*group{}
	for i := range steps {
		s := &steps[i]
		key := "by itself " + s.By
		if s.Root != nil {
			key = fmt.Sprint(s.Root.Rev)
		}
		g := at[key]
		if g == nil {
			g = &group{root: s.Root, by: s.By}
			at[key] = g
			list = append(list, g)
		}
		g.steps = append(g.steps, s)
	}
	return list
}

// Text writes an answer for people: requests in their order, with what they changed field by field, and what loops did because of
// them, alike things together.
func (a *Answer) Text(w io.Writer) error {
	var b strings.Builder
	for _, g := range grouped(a.Steps) {
		g.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *group) text(b *strings.Builder) {
	switch {
	case g.root != nil:
		who := g.root.By
		if g.root.User != "" && g.root.User != who {
			who = g.root.User + " (" + who + ")"
		}
		what := converge.Hidden
		if g.root.Object.Name != "" {
			what = shortOf(g.root.Object)
		}
		fmt.Fprintf(b, "%s  %s %s %s\n", clock(g.root.At), who, Did(g.root.Verb), what)
	case g.by != "":
		fmt.Fprintf(b, "%s  %s, by itself or for a reason that is not known\n", clock(g.steps[0].At), g.by)
	default:
		fmt.Fprintf(b, "%s  it is not known who\n", clock(g.steps[0].At))
	}
	var loops []*Step
	going := map[Object]bool{} // told of when they were asked to go
	for _, s := range g.steps {
		switch {
		case g.root != nil && s.Rev == g.root.Rev:
			fieldsText(b, "    ", s)
		case s.Verb == trail.Deleted && going[s.Object]:
			continue
		default:
			loops = append(loops, s)
		}
		going[s.Object] = s.Verb == trail.Marked || going[s.Object]
	}
	for _, l := range alike(loops) {
		l.text(b, g.root)
	}
}

// likes are steps alike: the same was done by the same one, to one object or to several of a kind.
type likes struct {
	steps   []*Step
	objects map[Object]bool
}

// mostAlike bounds the objects that are named one by one.
const mostAlike = 3

func alike(steps []*Step) (list []*likes) {
	at := map[string]*likes{}
	for _, s := range steps {
		key := strings.Join([]string{s.By, Did(s.Verb), s.Object.Resource, s.Object.Namespace}, " ")
		if s.Verb == trail.Changed {
			for i := range s.Fields {
				key += " " + s.Fields[i].Path
			}
			key += s.Unknown
		}
		if at[key] == nil {
			at[key] = &likes{objects: map[Object]bool{}}
			list = append(list, at[key])
		}
		at[key].steps = append(at[key].steps, s)
		at[key].objects[s.Object] = true
	}
	return list
}

func (l *likes) text(b *strings.Builder, root *Root) {
	s := l.steps[0]
	line := "    "
	if root != nil {
		line += "+" + soon(l.steps[len(l.steps)-1].At.Sub(root.At)) + "  "
	}
	if s.By != "" {
		line += s.By + " "
	}
	line += Did(s.Verb) + " "
	if n := len(l.objects); n > mostAlike {
		fmt.Fprintf(b, "%s%d %s (%s, …)", line, n, plural(s.Object), where(s.Object)+s.Object.Short())
		for i := range s.Fields {
			fmt.Fprintf(b, "%s%s", map[bool]string{true: ": ", false: ", "}[i == 0], s.Fields[i].Path)
		}
		b.WriteByte('\n')
		return
	}
	byObject := map[Object][]*Step{}
	for _, s := range l.steps {
		byObject[s.Object] = append(byObject[s.Object], s)
	}
	for _, s := range l.steps {
		if own := byObject[s.Object]; own[0] == s {
			fmt.Fprintf(b, "%s%s\n", line, where(s.Object)+s.Object.Short())
			if s.Verb == trail.Changed {
				fieldsText(b, "        ", together(own))
			}
		}
	}
}

// soon words how long after its cause something happened.
func soon(d time.Duration) string {
	if d < time.Second {
		return max(d, 0).Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// together is one step in the place of several of one object.
func together(steps []*Step) *Step {
	out := *steps[0]
	out.Fields = nil
	at := map[string]int{}
	for _, s := range steps {
		for _, f := range s.Fields {
			if i, ok := at[f.Path]; ok {
				out.Fields[i].New = f.New
				continue
			}
			at[f.Path] = len(out.Fields)
			out.Fields = append(out.Fields, f)
		}
		if s.Unknown != "" {
			out.Unknown = s.Unknown
		}
	}
	out.Fields = slices.DeleteFunc(out.Fields, func(f Field) bool { return same(f.Old, f.New) }) // it changed, and changed back
	return &out
}

func fieldsText(b *strings.Builder, indent string, s *Step) {
	if s.Unknown != "" {
		fmt.Fprintf(b, "%swhat changed is not known: %s\n", indent, s.Unknown)
	}
	for _, f := range s.Fields {
		fmt.Fprintf(b, "%s%s\n", indent, f.Text())
	}
}

// Text is the field and its two values on one line.
func (f *Field) Text() string {
	return fmt.Sprintf("%s: %s → %s", f.Path, value(f.Old), value(f.New))
}

// widest bounds what is shown of a value, in characters.
const widest = 60

// value words a value; what stands for that of a Secret says only that it is one.
func value(v any) string {
	if v == nil {
		return "(none)"
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if history.HasStandIn(doc) {
		return "(secret)"
	}
	text := string(doc)
	if s, ok := v.(string); ok && s != "" && !strings.ContainsAny(s, " \n\t") {
		text = s
	}
	if r := []rune(text); len(r) > widest {
		text = string(r[:widest]) + "…"
	}
	return text
}

// Did is a verb of the trail in the past tense.
func Did(verb string) string {
	switch verb {
	case trail.Created:
		return "created"
	case trail.Marked, trail.Deleted:
		return "deleted"
	}
	return "changed"
}

func where(o Object) string {
	if o.Namespace == "" {
		return ""
	}
	return o.Namespace + ": "
}

func shortOf(r trail.Ref) string {
	name, _, _ := strings.Cut(r.Resource, ".")
	text := strings.TrimSuffix(name, "s") + "/" + r.Name
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

func plural(o Object) string { name, _, _ := strings.Cut(o.Resource, "."); return name }
