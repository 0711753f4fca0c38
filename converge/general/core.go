package general

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/converge"
)

func quotaHealth(w *converge.World, q *corev1.ResourceQuota) converge.Health {
	for name, want := range q.Spec.Hard {
		if have, ok := q.Status.Hard[name]; !ok || have.Cmp(want) != 0 {
			return converge.Health{Says: "is not in force as its spec has it", Want: fmt.Sprintf("spec.hard.%s=%s", name, want.String()),
				Have: "status.hard differs"}
		}
	}
	return converge.Health{}
}

func apiServiceHealth(_ *converge.World, a *apiregistrationv1.APIService) converge.Health {
	if a.Spec.Service == nil {
		return converge.Health{}
	}
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			if c.Status == apiregistrationv1.ConditionTrue {
				return converge.Health{}
			}
			return converge.Health{Says: "is not available", Want: "status.conditions[Available]=True",
				Have:  "status.conditions[Available]=" + string(c.Status),
				Since: c.LastTransitionTime.Time}
		}
	}
	return converge.Health{Says: "is not known to be available", Want: "status.conditions[Available]=True", Have: "no such condition",
		Since: a.CreationTimestamp.Time}
}

func definitionHealth(w *converge.World, d *apiextensionsv1.CustomResourceDefinition) converge.Health {
	state := map[apiextensionsv1.CustomResourceDefinitionConditionType]apiextensionsv1.CustomResourceDefinitionCondition{}
	for _, c := range d.Status.Conditions {
		state[c.Type] = c
	}
	if c := state[apiextensionsv1.NamesAccepted]; c.Status == apiextensionsv1.ConditionFalse {
		return converge.Health{Says: "has names that another definition has", Want: "status.conditions[NamesAccepted]=True",
			Have: "status.conditions[NamesAccepted]=False", Since: c.LastTransitionTime.Time}
	}
	if c := state[apiextensionsv1.Established]; c.Status != apiextensionsv1.ConditionTrue {
		return converge.Health{Says: strings.TrimSuffix("is not served: "+c.Message, ": "), Want: "status.conditions[Established]=True",
			Have: "status.conditions[Established]=" + cmp.Or(string(c.Status), "missing")}
	}
	if ref := Converter(d); Unconverted(w, d) {
		return converge.Health{Says: "can't be served in all its versions",
			Want: "spec.conversion.webhook.clientConfig.service=" + ref.Namespace + "/" + ref.Name,
			Have: "no endpoint that takes connections"}
	}
	return converge.Health{}
}
