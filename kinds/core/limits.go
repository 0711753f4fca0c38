package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// ResourceQuotas declares the kind.
var ResourceQuotas = &resource.Def[*corev1.ResourceQuota]{
	GVK: gvk("ResourceQuota"), Plural: "resourcequotas", Short: []string{"quota"}, Namespaced: true, Status: true,
	Quirks: resource.Quirks{MetaUpdateOnly: true, DeleteReturnsObject: true},
	Default: func(q *corev1.ResourceQuota) {
		podspec.RoundResources(q.Spec.Hard)
		podspec.RoundResources(q.Status.Hard)
		podspec.RoundResources(q.Status.Used)
	},
	Validate: resource.Serving(validateQuota), ValidateStatus: resource.Serving(validateQuotaStatus),
	Columns: []resource.Column[*corev1.ResourceQuota]{
		resource.Col("Request", "string", func(q *corev1.ResourceQuota) any { return quotaUse(q, false) }),
		resource.Col("Limit", "string", func(q *corev1.ResourceQuota) any { return quotaUse(q, true) }),
		resource.Age[*corev1.ResourceQuota](),
	},
}

// quotaUse tells used and allowed amounts of the limits, or of all the rest.
func quotaUse(q *corev1.ResourceQuota, limits bool) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		if strings.HasPrefix(string(name), "limits.") == limits {
			used, hard := q.Status.Used[name], q.Status.Hard[name]
			list = append(list, fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String()))
		}
	}
	return strings.Join(list, ", ")
}

// LimitRanges declares the kind.
var LimitRanges = &resource.Def[*corev1.LimitRange]{
	GVK: gvk("LimitRange"), Plural: "limitranges", Short: []string{"limits"}, Namespaced: true, CreateOnUpdate: true,
	Quirks:  resource.Quirks{MetaErrorsOnce: true},
	Default: defaultLimitRange, Validate: resource.Serving(validateLimitRange),
	Prepare: func(l, old *corev1.LimitRange) {
		if old == nil {
			rule.FillZero(&l.Name, string(l.UID)) // of all kinds this one may come without a name
		}
	},
}

// defaultLimitRange derives for containers the default limit from the highest allowed, and the default request from
// the default limit, else from the lowest allowed.
func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		it := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{it.Max, it.Min, it.Default, it.DefaultRequest, it.MaxLimitRequestRatio} {
			podspec.RoundResources(list)
		}
		if it.Type == corev1.LimitTypeContainer {
			complete(&it.Default, it.Max)
			complete(&it.DefaultRequest, it.Default)
			complete(&it.DefaultRequest, it.Min)
		}
	}
}

func complete(list *corev1.ResourceList, from corev1.ResourceList) {
	for name, q := range from {
		if _, set := (*list)[name]; set {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
	}
}
