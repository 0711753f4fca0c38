package converge

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/strict"
)

// isVague says that a piece of advice holds of anything that does not work.
func isVague(advice string) bool {
	return slices.ContainsFunc(words.Vague, func(v string) bool { return strings.HasPrefix(advice, v) })
}

// byWords puts before vague advice what the words of the finding, or the field and the reason that they come with, are known to need.
func byWords(l *Look, f *Finding) {
	if len(f.Advice) > 0 && !isVague(f.Advice[0]) {
		return
	}
	text := f.Says + " " + f.Aside
	i := l.Kind.Info()
	s, ok := words.Meaning(words.ByGroup, strings.ToLower(i.GVK.Group+"/"+i.GVK.Kind+" "+text+" "+f.Words))
	if !ok {
		s, ok = words.Meaning(words.Overheard, strings.ToLower(text+" "+f.Words))
	}
	if !ok && f.Words != "" {
		s, ok = words.Meaning(words.LastWords, strings.ToLower(text))
		ok = ok && !strings.HasPrefix(s.Advice(), "correct the container's args") && // it is another program that speaks
			!strings.HasPrefix(s.Advice(), "correct its configuration")
	}
	field, others := "", []string(nil)
	if f.Words != "" && len(f.Below) == 0 && f.State != Blocked {
		if others = l.insteadSpoken(f); len(others) == 0 {
			field = correctSpoken(l, f)
		}
	}
	absent := toMake(l, f)
	if absent != "" && (strings.HasPrefix(s.Advice(), "give the account that it works with") || // it speaks of the name
		strings.Contains(text, `"`+f.Waits.On.Name+`" not found`)) {
		ok = false
	}
	switch {
	case strings.Contains(f.Says, "exits with code"):
		return
	case ok && (f.NoCommand != "" || len(f.Advice) > 0 && strings.Contains(f.Advice[0], ": kubectl patch ")):
		// what a rule has found out says more
	case ok:
		f.Advice = append([]string{Filled(l, s.Advice())}, f.Advice...)
	case field == "" && len(others) == 0 && f.Words != "" && words.Unfit.MatchString(text):
		f.Advice = append([]string{correcting(l, text)}, f.Advice...)
	}
	if field != "" {
		others = []string{field}
	}
	f.Advice = slices.Insert(f.Advice, max(len(f.Advice)-1, 0), others...)
	if absent != "" && !ok {
		f.Advice = slices.Insert(f.Advice, len(f.Advice)-1, absent)
	}
	if slices.ContainsFunc(f.Advice, isAnew) {
		f.Also = slices.DeleteFunc(slices.Clone(f.Also), func(a string) bool { return strings.HasPrefix(a, Again) })
	}
	if len(f.Advice) > 0 && !strings.HasPrefix(f.Advice[0], words.LookAt) {
		f.Advice = slices.DeleteFunc(f.Advice, func(a string) bool { return strings.HasPrefix(a, words.LookAt) })
	}
}

// toMake advises to make what a controller waits for and that is not there, or to name another one.
func toMake(l *Look, f *Finding) string {
	if f.Words == "" || f.State != Blocked || f.Waits == nil || f.Waits.On == nil || f.Waits.Field != "" || len(f.Advice) == 0 ||
		strings.Contains(strings.Join(f.Advice, "\n"), "kubectl get ") {
		return ""
	}
	k, known := l.Kinds.GR(schema.ParseGroupResource(f.Waits.On.Resource))
	if !known || !l.Sees(k, f.Waits.On.Namespace) || l.Read.Lookup(k, f.Waits.On.Namespace, f.Waits.On.Name) != nil {
		return ""
	}
	list := "kubectl get " + k.Info().GR().String()
	if f.Waits.On.Namespace != "" {
		list += " -n " + f.Waits.On.Namespace
	}
	return "make " + f.Waits.On.Short() + ", or name one that is there: " + list
}

// Filled is the advice of a table with what it says of the object.
func Filled(l *Look, advice string) string {
	ns := "-n " + l.Obj.GetNamespace()
	if l.Obj.GetNamespace() == "" {
		ns = "-A"
	}
	return strings.NewReplacer("{}", Called(l), "{ns}", ns).Replace(advice)
}

// Called is the object as a command names it.
func Called(l *Look) string { return l.Obj.GetName() + In(l.Obj.GetNamespace()) }

// Called is the object as a command names it, with its kind.
func (r Ref) Called() string {
	ns := r.NS
	if !r.Kind.Info().Namespaced {
		ns = ""
	}
	return r.Kind.Info().GR().String() + " " + r.Name + In(ns)
}

// In is the option that names a namespace; "": there is none.
func In(ns string) string {
	if ns == "" {
		return ""
	}
	return " -n " + ns
}

// correcting is the step after a spec that can't be done as it stands. What ran to its end does not run again.
func correcting(l *Look, text string) string {
	gr := l.Kind.Info().GR().String() + " " + Called(l)
	name, where := words.Ungiven(text), ""
	tree, _ := words.Tree(l.Obj)
	if m := notValid.FindStringSubmatch(text); m != nil && !l.isOver() && m[1] != l.Kind.Info().GVK.Kind {
		return "correct " + m[3] + " of " + strings.ToLower(m[1]) + "/" + m[2] + " in what " + l.Kind.Info().Singular + "/" + l.Obj.GetName() +
			" goes by" + sourceOf(tree)
	}
	if path, value := words.Typed(tree, text); path != "" {
		where = ", at " + path + " (" + value + ")"
	}
	if l.isOver() {
		if command, where := l.withParam(tree, name); command != "" {
			return "make it anew, with the parameter " + name + where + ": " + command
		} else if name != "" {
			return "make it anew, and give it " + name + " then: kubectl get " + gr + " -o yaml"
		}
		return "correct what it is made from, and make it anew: one that has ended does not run again: kubectl get " + gr + " -o yaml"
	}
	if by, path, value := l.spokenAbove(text); by != nil {
		return "it is made by " + new(by.Object()).Short() + ": correct " + path + " there (" + words.OneLine(value) + "): kubectl edit " +
			by.Kind.Info().GR().String() + " " + Called(by)
	}
	if name != "" {
		return "give it " + name + ", which its spec lacks" + where + ": kubectl edit " + gr
	}
	return "correct it: kubectl edit " + gr
}

// withParam is the command that makes an object that runs once anew with a parameter that it was not given, with the value that another one
// of its kind has; "": it has no list of parameters.
func (l *Look) withParam(tree map[string]any, name string) (command, where string) {
	params := func(tree map[string]any) (list []any, is bool) {
		spec, _ := tree["spec"].(map[string]any)
		list, is = spec["params"].([]any)
		return list, is
	}
	if _, is := params(tree); !is || !plainName.MatchString(strings.ToLower(name)) {
		return "", ""
	}
	param := map[string]any{"name": name, "value": "VALUE"}
	for other := range l.Read.Each(l.Kind, l.Obj.GetNamespace()) {
		one, _ := words.Tree(other)
		list, _ := params(one)
		for _, item := range list {
			if p, _ := item.(map[string]any); words.String(p, "name") == name && where == "" {
				param, where = p, ", as "+l.Kind.Info().Singular+"/"+other.GetName()+" has it"
			}
		}
	}
	return again(l.Kind, l.Obj, tree, []Change{Add("/spec/params/-", param)}), where
}

// notValid finds another object of which somebody says that it is not valid, and the field of it.
var notValid = pattern.New(`\b([A-Z]\w+)(?:\.[a-z0-9.]+)? \\*"([a-z0-9.-]+)\\*" is invalid: ([a-z][\w.\[\]]*)`)

// sourceOf tells where an object that applies others has them from; "": it does not say.
func sourceOf(tree map[string]any) string {
	spec, _ := tree["spec"].(map[string]any)
	source, _ := spec["source"].(map[string]any)
	ref, _ := spec["sourceRef"].(map[string]any)
	path, repo := cmp.Or(words.String(source, "path"), words.String(spec, "path")), words.String(source, "repoURL")
	if name := words.String(ref, "name"); name != "" {
		repo = strings.ToLower(words.String(ref, "kind")) + "/" + name
	}
	if path == "" || repo == "" {
		return ""
	}
	return ": " + words.Word(path) + " of " + words.Word(repo)
}

// branches are the names that the first branch of a repository has, each with the other one.
var branches = map[string]string{"master": "main", "main": "master"}

// branchLike is the usual name of a branch of which a value is a misspelling; "": it is of none.
func branchLike(value string) string {
	return words.Between(strict.Meant(value, []string{"main", "master", "develop", "release"}), "did you mean ", "?")
}

// answeredBy finds words of one who was reached, or of the DNS that was not: the address itself is right then.
var answeredBy = pattern.New(`(?i)\b(40[13]|429)\b|denied|forbidden|authoriz|authentic|limit|` +
	`lookup .*timeout|misbehaving|x509|handshake|\bknown`)

// plainNumber finds values that stand in many sentences for something else.
var plainNumber = pattern.New(`^\d{1,2}$`)

// ofOther says that the words have a field's number, and no word of what has that field: "OSD count 1" is not mon.count.
func ofOther(path, value, message string) bool {
	parts := strings.Split(strings.ReplaceAll(path, "[]", ""), ".")
	return plainNumber.MatchString(value) && len(parts) > 2 &&
		!strings.Contains(strings.ToLower(message), strings.ToLower(parts[len(parts)-2]))
}

// correctSpoken advises to look at the field of the spec that the words are about: of the object, or of what it was made from.
func correctSpoken(l *Look, f *Finding) string {
	tree, _ := words.Tree(l.Obj)
	message := words.ErrorText(f.Error)
	if message == "" || !words.Faulty.MatchString(message) && words.PassingWords.MatchString(message) &&
		!words.UnknownKey.MatchString(message) {
		return "" // it is at work
	}
	if _, why, of := strings.Cut(message, `" is invalid: `); of {
		message = why // what comes before names that object, and who makes it
	}
	message = strings.NewReplacer("refs/heads/", "", "refs/tags/", "").Replace(message)
	path, value := words.SpokenField(tree, message)
	if path == "" || ofOther(path, value, message) || strings.Contains(value, "://") && answeredBy.MatchString(message) {
		return ""
	}
	if fields := strings.Fields(value); len(fields) == 6 && strings.Contains(message, "5 fields, found 6") {
		if command := l.renaming(value, strings.Join(fields[1:], " "), false, "", ""); command != "" {
			return "it speaks of " + path + " (" + value + "); if its first field was meant for seconds, leave it out: " + command
		}
	}
	if other := cmp.Or(branches[value], branchLike(value)); other != "" && (strings.HasSuffix(strings.ToLower(path), "branch") ||
		strings.HasSuffix(path, "evision")) {
		if command := l.renaming(value, other, false, "", ""); command != "" {
			return "it speaks of " + path + " (" + value + "); if the branch is " + other + " there: " + command
		}
	}
	if value != "" {
		value = " (" + words.OneLine(value) + ")"
	}
	says := "it speaks of " + path + value + "; "
	if by, path, v := l.spokenAbove(message); by != nil {
		return "it speaks of " + path + " (" + words.OneLine(v) + ") of " + new(by.Object()).Short() + ", which made it; correct it there: " +
			"kubectl edit " + by.Kind.Info().GR().String() + " " + Called(by)
	}
	if k, obj := l.source(strings.Trim(value, " ()"), false); len(l.Obj.GetOwnerReferences()) > 0 && obj != nil {
		return says + "it comes from " + new(ObjectOf(k, obj)).Short() + "; correct it there: kubectl edit " + RefTo(k, obj).Called()
	}
	if owners := l.Obj.GetOwnerReferences(); len(owners) > 0 {
		says += "correct that in what " + strings.ToLower(owners[0].Kind) + "/" + owners[0].Name + " is made from"
		if by := l.madeBy(); by != nil {
			says += ", which its spec names: kubectl get " + RefTo(by.Kind, by.Obj).Called() + " -o yaml"
		}
		return says
	}
	if l.isOver() {
		return says + "make it anew with another: kubectl get " + l.Kind.Info().GR().String() + " " + Called(l) + " -o yaml"
	}
	return says + "correct it: kubectl edit " + l.Kind.Info().GR().String() + " " + Called(l)
}
