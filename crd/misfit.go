package crd

// maxMisfits is the number of values that may be wrong which the library is given at once: it compares every error with all before it,
// so that a list of 20,000 mistakes, 40 KB, takes it 3 s, and one of a megabyte an hour.
const maxMisfits = 1000

// cut returns an object whose values that do not fit for sure are at most maxMisfits; those behind are left out, with the rest of
// the lists and objects that they stand in. One with fewer is returned as it is.
func (p *fastSchema) cut(obj map[string]any) (out map[string]any, whole bool) {
	left := maxMisfits
	if v, _ := p.kept(obj, &left).(map[string]any); left < 0 {
		return v, false
	}
	return obj, true
}

// kept returns the value without what stands behind the last misfit that is left.
func (p *fastSchema) kept(v any, left *int) any {
	if p == nil || !p.hard && p.fits(v) {
		return v
	}
	out, before := v, *left
	switch x := v.(type) {
	case map[string]any:
		if p.typ == "object" {
			out = p.keptObject(x, left)
		}
	case []any:
		if p.typ == "array" {
			out = p.keptList(x, left)
		}
	}
	if *left == before { // nothing in it: it is wrong itself
		*left--
	}
	return out
}

func (p *fastSchema) keptObject(m map[string]any, left *int) any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		of, ok := p.props[name]
		if !ok {
			of = p.rest
		}
		if out[name] = of.kept(v, left); *left < 0 {
			return out
		}
	}
	return out
}

func (p *fastSchema) keptList(l []any, left *int) any {
	out := make([]any, 0, len(l))
	for _, v := range l {
		if out = append(out, p.items.kept(v, left)); *left < 0 {
			return out
		}
	}
	return out
}
