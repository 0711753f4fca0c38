package plugins

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/networking"
	"github.com/kloop-dev/kloop/resource"
)

// defaultIngressClass gives an ingress that names no class the default one; of several it is the newest. An
// ingress that names its class the old way, by annotation, is left alone.
func defaultIngressClass(_ context.Context, r *admission.Request) error {
	in, ok := r.Object.(*networkingv1.Ingress)
	if !ok || !r.On(networkingv1.GroupName, "ingresses", admission.Create) || in.Spec.IngressClassName != nil {
		return nil
	}
	if _, ok := in.Annotations["kubernetes.io/ingress.class"]; ok {
		return nil
	}
	var best *networkingv1.IngressClass
	for _, c := range resource.List(r.Read, networking.IngressClasses, "") {
		if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" && newer(c, best) {
			best = c
		}
	}
	if best != nil {
		in.Spec.IngressClassName = &best.Name
	}
	return nil
}
