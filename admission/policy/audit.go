package policy

import (
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// failureKey is the annotation of audit events that tells which validations failed where the binding says Audit.
const failureKey = "validation.policy.admission.k8s.io/validation_failure"

// The bounds of what policies write into an audit event.
const (
	maxFailures = 50
	maxNote     = 10 << 10
)

// A failure is a failed validation as audit events tell it.
type failure struct {
	Message           string                                     `json:"message"`
	Policy            string                                     `json:"policy"`
	Binding           string                                     `json:"binding"`
	ExpressionIndex   int                                        `json:"expressionIndex"`
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions"`
}

// A note is an audit annotation of a policy, or why there is none.
type note struct {
	key, value string
	err        error
}

// notes are the values of each annotation: bindings with other parameters may say something else.
type notes map[string][]string

func (n notes) add(key, value string) {
	if len(value) > maxNote {
		value = value[:maxNote]
	}
	if !slices.Contains(n[key], value) {
		n[key] = append(n[key], value)
	}
}

// publish writes what was found into the audit event, if there is one.
func (j *judgement) publish() {
	if j.r.Annotate == nil {
		return
	}
	for key, values := range j.notes {
		j.r.Annotate(key, strings.Join(values, ", "))
	}
	if len(j.failures) == 0 {
		return
	}
	list := j.failures[:min(len(j.failures), maxFailures)]
	if text, err := json.Marshal(list); err == nil {
		j.r.Annotate(failureKey, string(text))
	}
}
