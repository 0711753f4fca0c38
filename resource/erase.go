package resource

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// erase makes the rules of a Def: its facts, and each function behind one that takes any Object. Sealed objects reach a function
// opened; a nil Object as a nil T.
func erase[T Object](d *Def[T]) *rules {
	return newRules(&Def[Object]{
		GVK: d.GVK, Plural: d.Plural, Singular: d.Singular, Short: d.Short, Categories: d.Categories, Namespaced: d.Namespaced,
		Storage: d.Storage, Verbs: d.Verbs, Virtual: d.Virtual, JSON: d.JSON, Name: d.Name, CreateOnUpdate: d.CreateOnUpdate,
		Generation: d.Generation, OrphanByDefault: d.OrphanByDefault, Quirks: d.Quirks, Deprecated: d.Deprecated,
		Status: d.Status, KeepStatus: d.KeepStatus, Connect: d.Connect,

		Default:        one(d.Default),
		Early:          early(d.Early),
		Prepare:        two(d.Prepare),
		Validate:       judge(d.Validate),
		Warn:           texts(d.Warn),
		Grace:          grace(d.Grace),
		TTL:            from(d.TTL),
		Gated:          eraseGated(d.Gated),
		PrepareStatus:  two(d.PrepareStatus),
		ValidateStatus: judge(d.ValidateStatus),
		Parts:          each(d.Parts, erasePart),
		Scale:          eraseScale(d.Scale),
		Share:          one(d.Share),
		Seal:           seal(d.Seal),
		RowOrder:       order(d.RowOrder),
		Marks:          from(d.Marks),
		Among:          among(d.Among),
		Columns:        each(d.Columns, eraseColumn),
		Select:         each(d.Select, eraseField),
		Also:           each(d.Also, eraseVersion),
	}, reflect.TypeFor[T]())
}

// typed returns obj as T; a nil interface becomes a nil T.
func typed[T Object](obj Object) (t T) {
	if obj != nil {
		t = As[T](obj)
	}
	return t
}

// each maps a list; nil stays nil.
func each[A, B any](list []A, f func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i, a := range list {
		out[i] = f(a)
	}
	return out
}

func one[T Object](f func(T)) func(Object) {
	if f == nil {
		return nil
	}
	return func(obj Object) { f(typed[T](obj)) }
}

func early[T Object](f func(schema.GroupVersion, T)) func(schema.GroupVersion, Object) {
	if f == nil {
		return nil
	}
	return func(v schema.GroupVersion, obj Object) { f(v, typed[T](obj)) }
}

func two[T Object](f func(obj, old T)) func(obj, old Object) {
	if f == nil {
		return nil
	}
	return func(obj, old Object) { f(typed[T](obj), typed[T](old)) }
}

func judge[T Object](f func(obj, old T) field.ErrorList) func(obj, old Object) field.ErrorList {
	if f == nil {
		return nil
	}
	return func(obj, old Object) field.ErrorList { return f(typed[T](obj), typed[T](old)) }
}

func gatedJudge[T Object](f func(on *features.Set, obj, old T) field.ErrorList) func(on *features.Set, obj, old Object) field.ErrorList {
	if f == nil {
		return nil
	}
	return func(on *features.Set, obj, old Object) field.ErrorList { return f(on, typed[T](obj), typed[T](old)) }
}

func texts[T Object](f func(obj, old T) []string) func(obj, old Object) []string {
	if f == nil {
		return nil
	}
	return func(obj, old Object) []string { return f(typed[T](obj), typed[T](old)) }
}

func order[T Object](f func(a, b T) int) func(a, b Object) int {
	if f == nil {
		return nil
	}
	return func(a, b Object) int { return f(typed[T](a), typed[T](b)) }
}

func grace[T Object](f func(T, *int64) int64) func(Object, *int64) int64 {
	if f == nil {
		return nil
	}
	return func(obj Object, asked *int64) int64 { return f(typed[T](obj), asked) }
}

func seal[T Object](f func(T, []byte, int64) Object) func(Object, []byte, int64) Object {
	if f == nil {
		return nil
	}
	return func(obj Object, stored []byte, rev int64) Object { return f(typed[T](obj), stored, rev) }
}

func from[T Object, R any](f func(T) R) func(Object) R {
	if f == nil {
		return nil
	}
	return func(obj Object) R { return f(typed[T](obj)) }
}

func among[T Object](f func(*features.Set, []T) func(T, []any)) func(*features.Set, []Object) func(Object, []any) {
	if f == nil {
		return nil
	}
	return func(on *features.Set, list []Object) func(Object, []any) {
		cells := f(on, each(list, typed[T]))
		return func(obj Object, row []any) { cells(typed[T](obj), row) }
	}
}

func eraseColumn[T Object](c Column[T]) Column[Object] {
	return Column[Object]{c.Name, c.Type, c.Format, c.Priority, c.Description, from(c.Cell)}
}

func eraseField[T Object](f Field[T]) Field[Object] {
	return Field[Object]{f.Label, from(f.Value), f.Index}
}

func erasePart[T Object](p Part[T]) Part[Object] {
	return Part[Object]{Name: p.Name, Verbs: p.Verbs, Resets: p.Resets, Take: two(p.Take), Validate: gatedJudge(p.Validate)}
}

func eraseScale[T Object](s *Scaled[T]) *Scaled[Object] {
	if s == nil {
		return nil
	}
	return &Scaled[Object]{Get: from(s.Get), Set: func(obj Object, n int32) { s.Set(typed[T](obj), n) }}
}

func eraseVersion[T Object](v Version[T]) Version[Object] {
	return Version[Object]{GVK: v.GVK, New: v.New, From: from(v.From), To: func(obj Object) Object { return v.To(obj) },
		Validate: judge(v.Validate)}
}

func eraseGated[T Object](g Gated[T]) (out Gated[Object]) {
	out.Generation = g.Generation
	if g.Columns != nil {
		out.Columns = func(on *features.Set) []Column[Object] { return each(g.Columns(on), eraseColumn) }
	}
	if g.Default != nil {
		out.Default = func(on *features.Set, obj Object) { g.Default(on, typed[T](obj)) }
	}
	if g.Drop != nil {
		out.Drop = func(on *features.Set, obj, old Object) { g.Drop(on, typed[T](obj), typed[T](old)) }
	}
	out.Validate, out.ValidateStatus = gatedJudge(g.Validate), gatedJudge(g.ValidateStatus)
	if g.Warn != nil {
		out.Warn = func(on *features.Set, obj, old Object) []string { return g.Warn(on, typed[T](obj), typed[T](old)) }
	}
	return out
}
