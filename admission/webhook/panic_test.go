package webhook

import (
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// TestPanic has a webhook that can't be asked because of a mistake of ours: the failure policy says what follows, and the program goes on.
func TestPanic(t *testing.T) {
	c := New(Config{Instead: func(string, string) { panic("oh") }}).ask(nil)
	h := &hook{config: &admissionregistrationv1.ValidatingWebhookConfiguration{}}
	var missing *failure
	if answer, err := c.one(t.Context(), h, nil); answer != nil || !errors.As(err, &missing) {
		t.Errorf("%v, %v", answer, err)
	}
}
