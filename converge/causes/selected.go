package causes

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// equals finds in a selector of devices, which is an expression, that an attribute has to have a value; of such an attribute the slices of
// the drivers tell all values that there are.
var equals = pattern.New(`^device\.(driver|attributes\[["']([\w./-]+)["']\]\.(\w+)) == ["']([^"']+)["']$`)

// A picked is a selector that no device fits: where it is, the value that it asks for, and those that there are.
type picked struct {
	of         converge.Ref
	path       string
	expression string
	what, want string
	there      []string
	claimed    bool // it is of a claim, of which the pod has its own copy
}

// unfitDevices tells of the selector of a pod's claims, or of their class, that no device fits, and of the values that they have.
func unfitDevices(l *converge.Look, f *converge.Finding, p *corev1.Pod) {
	if !l.Sees(kinds.ResourceSlices) {
		return
	}
	for _, c := range p.Spec.ResourceClaims {
		r := converge.Ref{Kind: kinds.ResourceClaims, NS: p.Namespace, Name: ptr.Deref(c.ResourceClaimName, "")}
		at, spec := "/spec/devices/requests/", (*resourcev1.ResourceClaimSpec)(nil)
		if name := ptr.Deref(c.ResourceClaimTemplateName, ""); name != "" {
			r.Kind, r.Name, at = kinds.ResourceClaimTemplates, name, "/spec"+at
			if t := resource.Get(l.Read, kinds.ResourceClaimTemplates, p.Namespace, name); t != nil {
				spec = &t.Spec.Spec
			}
		} else if claim := resource.Get(l.Read, kinds.ResourceClaims, p.Namespace, r.Name); claim != nil {
			spec = &claim.Spec
		}
		if spec == nil {
			continue
		}
		for i := range spec.Devices.Requests {
			e := spec.Devices.Requests[i].Exactly
			if e == nil {
				continue
			}
			s := unmetBy(l, e.Selectors, picked{of: r, path: at + strconv.Itoa(i) + "/exactly/selectors/", claimed: true})
			if class := resource.Get(l.Read, kinds.DeviceClasses, "", e.DeviceClassName); s == nil && class != nil {
				s = unmetBy(l, class.Spec.Selectors, picked{of: converge.RefTo(kinds.DeviceClasses, class), path: "/spec/selectors/"})
			}
			if s != nil {
				correctPick(f, p, s)
				return
			}
		}
	}
}

// unmetBy is the first of some selectors whose value no device has; nil: none is, as far as they are read here.
func unmetBy(l *converge.Look, list []resourcev1.DeviceSelector, s picked) *picked {
	for i := range list {
		if list[i].CEL == nil {
			continue
		}
		m := equals.FindStringSubmatch(strings.TrimSpace(list[i].CEL.Expression))
		if m == nil {
			continue
		}
		has := map[string]bool{}
		for _, slice := range resource.List(l.Read, kinds.ResourceSlices, "") {
			if m[1] == "driver" {
				has[slice.Spec.Driver] = true
				continue
			}
			for j := range slice.Spec.Devices {
				all := slice.Spec.Devices[j].Attributes
				a, is := all[resourcev1.QualifiedName(m[2]+"/"+m[3])]
				if !is && slice.Spec.Driver == m[2] {
					a = all[resourcev1.QualifiedName(m[3])]
				}
				if text := ptr.Deref(a.StringValue, ""); text != "" {
					has[text] = true
				}
			}
		}
		if len(has) > 0 && !has[m[4]] {
			s.path, s.expression = s.path+strconv.Itoa(i)+"/cel/expression", list[i].CEL.Expression
			s.what, s.want, s.there = strings.TrimPrefix(m[2]+"/"+m[3], "/"), m[4], slices.Sorted(maps.Keys(has))
			return &s
		}
	}
	return nil
}

func correctPick(f *converge.Finding, p *corev1.Pod, s *picked) {
	if s.what == "" {
		s.what = "driver"
	}
	o := converge.Named(s.of.Kind, s.of.NS, s.of.Name)
	f.Says += "; " + o.Short() + " asks for a device whose " + s.what + " is " + s.want + ", and those that there are have " +
		words.List(s.there, 3)
	change := func(value string) string {
		put := converge.Put(s.path, strings.Replace(s.expression, s.want, value, 1))
		if s.claimed {
			return converge.Anew(s.of, put)
		}
		return converge.Patched(s.of, put)
	}
	if advice := converge.Choices(s.want, s.there, change); len(advice) > 0 {
		f.Advice = advice
		if s.of.Kind == kinds.ResourceClaimTemplates {
			f.Advice = append(f.Advice, "then have the pod made anew, with a claim from it: kubectl delete pod "+p.Name+" -n "+p.Namespace)
		}
	}
}
