package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// Who refuses an amount mostly says which would do: that goes in the place of the one in the spec.

// figure is an amount in the words of a controller.
const figure = `(\d+(?:\.\d+)?(?:[KMGTP]i?B?\b|m\b)?)`

var (
	// tooMuch finds the amount that would do, in the words by which another one does not.
	tooMuch = pattern.New(`(?i:\b(?:only|at most|no more than|not more than|up to|maximum (?:\w+ ){0,3}(?:of|is|allowed is)|` +
		`less than or equal to|not exceed|not be (?:greater|larger|more|higher) than|limit (?:of|is))|<=) ` + figure)
	// tooLittle finds the same where more is wanted.
	tooLittle = pattern.New(`(?i:\b(?:at least|minimum (?:\w+ ){0,3}(?:of|is)|greater than or equal to|no less than|not less than|` +
		`not be (?:less|smaller|lower) than)|>=) ` + figure)
	// amid finds both ends of what would do.
	amid = pattern.New(`\bexpected ` + figure + ` <=? \S+ <=? ` + figure +
		`|(?i:\b(?:within|between|in (?:the )?range(?: of)?):? )[\[(]?` + figure + `(?: ?(?:and|to|-|,|\.\.) ?)` + figure)
	// above and below find the amount that alone would not do.
	above = pattern.New(`(?i:\b(?:must|should|has to|needs to) be (?:greater|larger|more|higher) than|\bmust be >) ` + figure)
	below = pattern.New(`(?i:\b(?:must|should|has to|needs to) be (?:less|smaller|lower) than|\bmust be <) ` + figure)
)

// An amount is one of a spec, with the fields and places in lists that lead to it.
type amount struct {
	path   []string
	text   string
	is     apiresource.Quantity
	listed bool // there is a list on the way
	quoted bool // it is a text
}

// amounts are those of a spec.
func amounts(path []string, v any, listed bool, depth int) (list []amount) {
	if depth > converge.MaxDepth {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			list = append(list, amounts(append(slices.Clone(path), field), v[field], listed, depth+1)...)
		}
	case []any:
		for i, item := range v {
			list = append(list, amounts(append(slices.Clone(path), strconv.Itoa(i)), item, true, depth+1)...)
		}
	case int64:
		list = append(list, amount{path, fmt.Sprint(v), *apiresource.NewQuantity(v, apiresource.DecimalSI), listed, false})
	case string:
		if q, err := resource.ParseQuantity(v); err == nil && len(v) < 12 {
			list = append(list, amount{path, v, q, listed, true})
		}
	}
	return list
}

// field is the name of the field that an amount stands in.
func (a *amount) field() string {
	for _, name := range slices.Backward(a.path) {
		if name[0] < '0' || name[0] > '9' {
			return name
		}
	}
	return ""
}

// A span is from one amount to another; an end that is "" is open.
type span struct{ low, high string }

// spanIn is the span that would do, by the words of who refuses an amount.
func spanIn(message string) (s span) {
	switch m := amid.FindStringSubmatch(message); {
	case m != nil:
		return span{m[1] + m[3], m[2] + m[4]}
	case tooMuch.MatchString(message):
		return span{high: tooMuch.FindStringSubmatch(message)[1]}
	case tooLittle.MatchString(message):
		return span{low: tooLittle.FindStringSubmatch(message)[1]}
	}
	beside := func(text string, by int) string {
		if n, err := strconv.Atoi(text); err == nil {
			return strconv.Itoa(n + by)
		}
		return text
	}
	if m := above.FindStringSubmatch(message); m != nil {
		return span{low: beside(m[1], 1)}
	} else if m := below.FindStringSubmatch(message); m != nil {
		return span{high: beside(m[1], -1)}
	}
	if shrinks.MatchString(message) {
		most := -1
		for _, text := range alone.FindAllString(message, converge.MaxLooks) { // what it has is more than what it is to have
			if n, err := strconv.Atoi(text); err == nil && n > most {
				most, s.low = n, text
			}
		}
	}
	return s
}

var (
	// shrinks finds words by which an amount can only grow.
	shrinks = pattern.New(`(?i)\b(?:decreas|shrink|reduc)\w* .*` +
		`(?:not (?:\w+ )?(?:supported|allowed|possible|permitted)|forbidden|unsupported)|` +
		`\b(?:can ?not|can't|may not|must not|unable to) (?:be )?(?:decreas|shrink|reduc|shrunk)`)
	alone = pattern.New(`\b\d+\b`)
)

// nearest is the end of a span beyond which an amount is; "": it is beyond none.
func (s span) nearest(a *amount) string {
	for i, end := range []string{s.low, s.high} {
		end = strings.TrimSuffix(end, "B")
		if q, err := resource.ParseQuantity(end); err == nil && end != "" && a.is.Cmp(q) == 2*i-1 {
			return end
		}
	}
	return ""
}

// outOfBounds advises the amount that would do, where the words have that, and those or the field's name tell which one of the spec does
// not.
func outOfBounds(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	s := spanIn(message)
	if s == (span{}) || len(f.Below) > 0 || f.State == converge.Blocked || !ownSpec(l) {
		return
	}
	low := strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(message))
	var said, called []amount
	for _, a := range amounts([]string{"spec"}, tree["spec"], false, 0) {
		if s.nearest(&a) == "" {
			continue
		}
		named := strings.Contains(low, strings.TrimSuffix(strings.ToLower(a.field()), "s"))
		if words.StandsIn(message, a.text) && a.text != s.low && a.text != s.high {
			said = append(said, a)
		}
		if named && len(a.field()) > 3 {
			called = append(called, a)
		}
	}
	if len(said) > 1 { // the one whose name the words have, too
		said = slices.DeleteFunc(said, func(a amount) bool {
			return !slices.ContainsFunc(called, func(c amount) bool { return slices.Equal(c.path, a.path) })
		})
	}
	if len(said) == 0 {
		said = called
	}
	if len(said) != 1 {
		return
	}
	a := said[0]
	to := s.nearest(&a)
	if a.quoted {
		to = `"` + to + `"`
	}
	command := settle(l, a.path, to)
	if a.listed {
		command = converge.Patched(converge.RefTo(l.Kind, l.Obj), converge.Put(converge.Pointer(a.path...), rawOf(&a, s.nearest(&a))))
	}
	f.Advice = append([]string{fmt.Sprintf("set %s, which is %s, to %s, as far as that may be changed: %s", strings.Join(a.path, "."), a.text,
		s.nearest(&a), command)}, f.Advice...)
}

// rawOf is a value as the field of an amount has it.
func rawOf(a *amount, text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && !a.quoted {
		return n
	}
	return text
}

// backward finds words by which a version can't be followed by an older one.
var backward = pattern.New(`(?i)\bdowngrad(?:e|es|ing)\b`)

// downgraded advises to have the version that an object has, by its status, where its spec asks for an older one, which can't be.
func downgraded(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	status, _ := tree["status"].(map[string]any)
	has := cmp.Or(words.String(status, "version"), words.String(status, "currentVersion"), words.String(status, "observedVersion"))
	if has == "" || len(f.Below) > 0 || !ownSpec(l) || !backward.MatchString(message) {
		return
	}
	for _, v := range values("spec", tree["spec"], 0) {
		_, field, _ := cutLast(v.path)
		if strings.HasSuffix(strings.ToLower(field), "version") && v.text != has && !strings.Contains(v.path, "[]") {
			f.Advice = append([]string{"have the version that it has, " + has + ", or a newer one: " + settle(l, strings.Split(v.path, "."),
				`"`+has+`"`)}, f.Advice...)
			return
		}
	}
}
