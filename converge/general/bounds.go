package general

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// A controller that says what is too much, too little or not given at all leaves it to the reader to find the field: it is looked for.

// noRoom finds words by which a disk is full.
var noRoom = pattern.New(`(?i)no space left|(?:not enough|insufficient|out of|low on|no) (?:free |available )?(?:disk|storage|space)|` +
	`disk (?:space )?(?:is )?(?:full|low)|volume is full`)

// spokenBounds advises what the words of a controller tell of the fields that have to change.
func spokenBounds(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if !words.Faulty.MatchString(message) && words.PassingWords.MatchString(message) && !locked.MatchString(message) {
		return // it is at work
	}
	keylessSaid(l, f, message)
	outOfOrder(l, f, tree, message)
	outOfBounds(l, f, tree, message)
	growing(l, f, tree, message)
	downgraded(l, f, tree, message)
	roomier(l, f, tree, message)
	heldBy(l, f, tree, message)
}

// A number is one of a spec, with the fields that lead to it; in a list it has none.
type number struct {
	path []string
	is   int64
}

// numbers are those of a spec outside of its lists.
func numbers(path []string, v any, depth int) (list []number) {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if depth < converge.MaxDepth {
				list = append(list, numbers(append(slices.Clone(path), field), v[field], depth+1)...)
			}
		}
	case int64:
		list = append(list, number{path, v})
	}
	return list
}

// ordered finds two fields with their numbers, of which one must be less than the other.
var ordered = pattern.New(`\b([A-Za-z]\w+)\W{1,3}(\d+)\W{0,2} (?:must be|should be|has to be|cannot be|can't be|is)(?: set)? ` +
	`(less|lower|smaller|greater|larger|higher|more) than (or equal to |the )*([A-Za-z]\w+)\W{1,3}(\d+)`)

// outOfOrder advises to set the greater of two numbers of a spec that stand the wrong way round.
func outOfOrder(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	m := ordered.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 || !ownSpec(l) {
		return
	}
	small, large := [2]string{m[1], m[2]}, [2]string{m[5], m[6]}
	less := slices.Contains([]string{"less", "lower", "smaller"}, m[3])
	if less == (strings.Contains(m[0], "cannot be") || strings.Contains(m[0], "can't be") || strings.Contains(m[0], " is")) {
		small, large = large, small
	}
	least, err := strconv.ParseInt(small[1], 10, 64)
	if err != nil {
		return
	}
	for _, n := range numbers([]string{"spec"}, tree["spec"], 0) {
		if strings.EqualFold(n.path[len(n.path)-1], large[0]) && fmt.Sprint(n.is) == large[1] && n.is <= least {
			f.Advice = append([]string{fmt.Sprintf("raise %s, which is %d, above %s (%d), or lower that: %s", strings.Join(n.path, "."), n.is,
				small[0], least, settle(l, n.path, strconv.FormatInt(least+1, 10)))}, f.Advice...)
			return
		}
	}
}

// settle is the command that sets a field of an object; the value is JSON.
func settle(l *converge.Look, path []string, value string) string {
	body := value
	for _, field := range slices.Backward(path) {
		name, _ := json.Marshal(field)
		body = "{" + string(name) + ":" + body + "}"
	}
	if strings.Contains(body, "'") { // a field may have any name, and commands are pasted
		return "kubectl edit " + l.Kind.Info().GR().String() + " " + converge.Called(l)
	}
	return "kubectl patch " + l.Kind.Info().GR().String() + " " + converge.Called(l) + " --type=merge -p '" + body + "'"
}

// ownSpec says that nobody makes the object anew from elsewhere, by what is seen of it: then its own spec is the one to change.
func ownSpec(l *converge.Look) bool { return len(l.Obj.GetOwnerReferences()) == 0 }

func cutLast(path string) (before, last string, ok bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return path, "", false
	}
	return path[:i], path[i+1:], true
}

// roomier advises to double the size of storage that is full, where one field of the spec has it.
func roomier(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || !noRoom.MatchString(message) || !ownSpec(l) {
		return
	}
	var fits []value
	for _, v := range values("spec", tree["spec"], 0) {
		_, field, _ := cutLast(v.path)
		low := strings.ToLower(v.path)
		if _, err := resource.ParseQuantity(v.text); err == nil && !strings.Contains(v.path, "[]") &&
			(field == "size" || strings.HasSuffix(strings.ToLower(field), "storage") || strings.HasSuffix(field, "Size")) &&
			(strings.Contains(low, "storage") || strings.Contains(low, "volume") || strings.Contains(low, "disk")) {
			fits = append(fits, v)
		}
	}
	if wal := strings.Contains(strings.ToLower(message), "wal"); len(fits) > 1 { // of several, the one that the words have
		fits = slices.DeleteFunc(fits, func(v value) bool { return strings.Contains(strings.ToLower(v.path), "wal") != wal })
	}
	if len(fits) != 1 {
		fullThere(l, f)
		return
	}
	has, _ := resource.ParseQuantity(fits[0].text)
	twice := has.DeepCopy()
	twice.Add(has)
	f.Advice = append([]string{"enlarge " + fits[0].path + ", which is " + fits[0].text + ", if its class lets volumes grow: " +
		settle(l, strings.Split(fits[0].path, "."), `"`+twice.String()+`"`)}, f.Advice...)
}

var (
	// locked finds words by which an object waits for one that comes before it.
	locked = pattern.New(`(?i)\b(lock|mutex|semaphore|queue|turn|another (?:run|operation|build|deployment) )`)
	// holding finds the fields of a status that name who has it.
	holding = pattern.New(`(?i)\b(holders?|heldBy|lockedBy|blockedBy|waitingFor|holding)\b`)
)

// heldBy tells which object of the same kind has what this one waits for, by the status.
func heldBy(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || !locked.MatchString(message) {
		return
	}
	for _, v := range values("status", tree["status"], 0) {
		ns := l.Obj.GetNamespace()
		if v.ns != "" {
			ns = v.ns
		}
		if !holding.MatchString(v.path) {
			continue
		}
		other := l.Read.Lookup(l.Kind, ns, v.text)
		if other == nil || other.GetUID() == l.Obj.GetUID() {
			continue
		}
		o := converge.RefTo(l.Kind, other)
		f.Says += "; " + new(converge.ObjectOf(l.Kind, other)).Short() + ", made " +
			words.Ago(l.Now.Sub(other.GetCreationTimestamp().Time)) + " ago, has it"
		f.Waits, f.State = converge.On("Object", o, ""), converge.Waiting
		f.Next = converge.Does(f.Owner, "goes on when that lets it go")
		at := &converge.Look{World: l.World, Kind: l.Kind, Obj: other}
		f.Advice = append([]string{"see how far that is, or delete it, if it is to give way: kubectl get " + l.Kind.Info().GR().String() +
			" " + converge.Called(at) + " -o yaml"}, f.Advice...)
		if got, _ := words.Tree(other); got != nil {
			if spec, _ := got["spec"].(map[string]any); spec["suspend"] == true {
				f.Says += ", and is suspended"
				f.Advice = append([]string{"let it go on: " + settle(at, []string{"spec", "suspend"}, "false")}, f.Advice...)
			}
		}
		return
	}
}

// keySaid finds the key that somebody looked for in vain in a Secret or ConfigMap, by the words alone.
var keySaid = pattern.New(`(?i)key:? \\?['"]?([\w.-]+)\\?['"]?,? (?:not found |does not exist |missing |is missing |not present )?` +
	`(?:in|from|of) (secret|config ?map):? \\?['"]?(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])|` +
	`(secret|config ?map) \\?['"]?(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])\\?['"]? ` +
	`(?:has no|does not (?:have|contain)|is missing|lacks)(?: the| a)? (?:data )?key:? \\?['"]?([\w.-]+)|` +
	`no data for ['"]([\w.-]+)['"] in (secret|config ?map) ['"]?(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])|` +
	`(secret|config ?map)[\w ]{0,30} ['"](?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])['"] with key ['"]([\w.-]+)['"]: missing`)

// keylessSaid has a person add the key that a controller says is not in a Secret or ConfigMap that is there, wherever it is named.
func keylessSaid(l *converge.Look, f *converge.Finding, message string) {
	m := keySaid.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	key, word := m[1]+m[8]+m[9]+m[16], strings.ToLower(m[2]+m[5]+m[10]+m[13]) // one of the forms has them
	ns, name := m[3]+m[6]+m[11]+m[14], m[4]+m[7]+m[12]+m[15]
	if ns == "" {
		ns = l.Obj.GetNamespace()
	}
	k := resource.Kind(core.Secrets)
	if word != "secret" {
		k = core.ConfigMaps
	}
	obj := l.Read.Lookup(k, ns, name)
	if obj == nil || slices.Contains(converge.DataKeys(obj), key) {
		return
	}
	f.Waits, f.State = converge.On("Field", converge.RefTo(k, obj), "data."+key), converge.Blocked
	f.Next = converge.PersonDoes("adds that key, or names one that is there; %s goes on then", f.Owner)
	f.Advice = append([]string{"add the key " + key + ", or correct it where it is named: kubectl edit " + k.Info().Singular + " " + name +
		" -n " + ns}, f.Advice...)
}
