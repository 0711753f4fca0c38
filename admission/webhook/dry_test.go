package webhook

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Webhooks with side effects, which old configurations may have, are not asked about what is only tried.
func TestDryRun(t *testing.T) {
	for effects, want := range map[admissionregistrationv1.SideEffectClass]string{
		admissionregistrationv1.SideEffectClassNone: "", admissionregistrationv1.SideEffectClassNoneOnDryRun: "",
		admissionregistrationv1.SideEffectClassSome:    `admission webhook "x" does not support dry run`,
		admissionregistrationv1.SideEffectClassUnknown: `admission webhook "x" does not support dry run`,
	} {
		h := &hook{MutatingWebhook: admissionregistrationv1.MutatingWebhook{Name: "x", SideEffects: &effects}}
		got := ""
		if err := h.dry(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q", effects, got)
		}
	}
	h := &hook{MutatingWebhook: admissionregistrationv1.MutatingWebhook{Name: "x"}}
	if err := h.dry(); err == nil || err.Error() != `failed calling webhook "x": webhook sideEffects is not set` {
		t.Errorf("%v", err)
	}
}
