package server

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// A custom kind knows more of itself than a built-in one has to.
type custom interface {
	// Declaration stands for the spec and the names of the definition: another one has another.
	Declaration() any
	// CheckWarn is Check, which may also warn. It ends when ctx does.
	CheckWarn(ctx context.Context, on *features.Set, sub string, obj, old resource.Object, warn func(text string)) field.ErrorList
}

// rules are the validation of objects: of their metadata, by the rules of their kind, and by those of its extension.
type rules struct{ *Core }

// check holds an object to all rules; old is nil for a new one. The old events, and some other kinds, tell of the metadata of a new
// object only when all else is well.
func (s rules) check(ctx context.Context, r *Request, obj, old resource.Object) field.ErrorList {
	errs := s.checkKind(ctx, r, obj, old)
	if last := old == nil && (s.oldMeta(r) || r.Kind.Info().MetaErrorsLast); !last || len(errs) == 0 {
		meta := s.checkMeta(r, obj, old)
		if old == nil && r.Kind.Info().NameErrorsLast {
			meta = nameLast(meta, len(errs) > 0, s.Kinds.Features().AtLeast(37))
		}
		errs = append(meta, errs...)
	}
	if len(errs) == 0 && old == nil && r.Kind.Info().SkipGenerateNameCheck {
		errs = generateNameInPath(obj)
	}
	if more := s.extension(r.Kind).Validate; more != nil {
		errs = more(ctx, r, obj, old, errs)
	}
	return toldOnce(s.Kinds.Features(), r, errs)
}

// nameLast leaves out the errors of a name if there are any others; before 1.37 that there is none stays.
func nameLast(meta field.ErrorList, others, newer bool) field.ErrorList {
	rest := slices.DeleteFunc(slices.Clone(meta), func(e *field.Error) bool {
		return (e.Field == "metadata.name" || e.Field == generateNamePath) && (newer || e.Type != field.ErrorTypeRequired)
	})
	if len(rest) > 0 || others {
		return rest
	}
	return meta
}

// checkKind holds an object to the rules of its kind; old is nil for a new one.
func (s rules) checkKind(ctx context.Context, r *Request, obj, old resource.Object) field.ErrorList {
	if c, ok := r.Kind.(custom); ok {
		return c.CheckWarn(ctx, s.Kinds.Features(), r.Sub, obj, old, r.warn)
	}
	if old == nil {
		sent := r.Spoken()
		return r.Kind.Check(s.Kinds.Features(), &sent, "", obj, nil)
	}
	return r.Kind.Check(s.Kinds.Features(), &r.GVK, r.Sub, obj, old)
}

// refusal is the answer to an object that breaks rules, or whose rules nobody waited for.
func refusal(ctx context.Context, r *Request, obj resource.Object, errs field.ErrorList) error {
	if err := ctx.Err(); err != nil {
		return StoreError(err, "validate "+r.Kind.Info().Plural)
	}
	return Invalid(r, obj.GetName(), errs)
}

// toldOnce leaves out errors that say the same again: since 1.37 upstream does so, for the kinds whose rules are declared.
func toldOnce(on *features.Set, r *Request, errs field.ErrorList) field.ErrorList {
	if i := r.Kind.Info(); len(errs) < 2 || i.Custom || i.ErrorsRepeat || !on.AtLeast(37) {
		return errs
	}
	seen := make(map[string]bool, len(errs))
	n := fit(errs) // the rest is only counted
	return append(slices.DeleteFunc(errs[:n:n], func(e *field.Error) bool {
		text := e.Error()
		again := seen[text]
		seen[text] = true
		return again
	}), errs[n:]...)
}
