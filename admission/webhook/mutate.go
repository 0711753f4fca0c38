package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/admission/match"
	"github.com/kloop-dev/kloop/resource"
)

// rounds keeps the results of the first pass for the second.
type rounds struct {
	invoked map[string]bool // asked, and may be asked again
	again   map[string]bool // have to be asked again, because the object has changed since
	last    resource.Object // as the webhooks left it
}

// changed makes all that were asked so far see the object again.
func (m *rounds) changed() {
	for id := range m.invoked {
		m.again[id] = true
	}
	clear(m.invoked)
}

// mutate asks the webhooks that may change the object, one after the other. Those that wish so are asked a second
// time when somebody changed the object after them.
func (w *Webhooks) mutate(ctx context.Context, r *admission.Request) error {
	if exempt(r) {
		return nil
	}
	hooks := w.mutating.hooks(r.Read)
	if len(hooks) == 0 {
		return nil
	}
	memory, _ := r.Memory[MutatingName].(*rounds)
	if memory == nil {
		memory = &rounds{invoked: map[string]bool{}, again: map[string]bool{}}
		if r.Memory == nil {
			r.Memory = map[string]any{}
		}
		r.Memory[MutatingName] = memory
	}
	if r.Round > 0 && memory.last != nil && !same(memory.last, r.Object) {
		memory.changed()
	}
	c := w.ask(r)
	for i, h := range hooks {
		if r.Round > 0 && !memory.again[h.id] {
			continue
		}
		if err := c.visit(ctx, h, i, memory); err != nil {
			return err
		}
	}
	if r.Round == 0 && len(memory.invoked)+len(memory.again) > 0 && r.Object != nil {
		memory.last = resource.Clone(r.Object)
	}
	return nil
}

// visit asks one webhook, if it wants to be asked, and does what it says.
func (c *asking) visit(ctx context.Context, h *hook, i int, memory *rounds) error {
	as, err := c.wants(ctx, h)
	if as == nil || err != nil {
		return err
	}
	at := place(h, c.r.Round, i)
	changed, err := c.alter(ctx, h, *as)
	if err == nil {
		c.annotate(at, mutated(h, changed))
	}
	if changed {
		clear(c.text)
		memory.changed()
		c.r.Again = true
	}
	if h.again() {
		memory.invoked[h.id] = true
	}
	var missing *failure
	if errors.As(err, &missing) {
		return c.failed(ctx, h, at, missing)
	}
	return err
}

// mutated is the audit annotation of one call.
func mutated(h *hook, changed bool) string {
	note, _ := json.Marshal(struct {
		Configuration string `json:"configuration"`
		Webhook       string `json:"webhook"`
		Mutated       bool   `json:"mutated"`
	}{h.config.GetName(), h.Name, changed}) // has nothing that could fail
	return string(note)
}

// alter asks the webhook and applies its patch.
func (c *asking) alter(ctx context.Context, h *hook, as match.As) (changed bool, err error) {
	if c.r.DryRun {
		if err := h.dry(); err != nil {
			return false, err
		}
	}
	review, err := c.question(ctx, h, as)
	if err != nil {
		return false, &failure{h.Name, fmt.Errorf("could not create admission objects: %w", err)}
	}
	answer, err := c.one(ctx, h, review)
	if err != nil {
		return false, err
	}
	c.told(h, answer)
	if !answer.Allowed {
		return false, denial(h.Name, answer.Result)
	}
	return c.patch(ctx, h, as, answer)
}

// patch applies the patch of an answer to the object of the request.
func (c *asking) patch(ctx context.Context, h *hook, as match.As, answer *admissionv1.AdmissionResponse) (changed bool, err error) {
	if len(answer.Patch) == 0 {
		return false, nil
	}
	ops, err := jsonpatch.DecodePatch(answer.Patch)
	switch {
	case err != nil:
		return false, apierrors.NewInternalError(err)
	case len(ops) == 0:
		return false, nil
	case c.r.Object == nil && c.r.Target == nil:
		return false, apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", h.Name))
	case *answer.PatchType != admissionv1.PatchTypeJSONPatch:
		return false, &failure{h.Name, fmt.Errorf("unsupported patch type %q", *answer.PatchType)}
	}
	doc, _, err := c.texts(ctx, as.Kind)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	next, err := ops.Apply(doc)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	changed, err = adopt(ctx, c.r, as.Kind, next)
	var known apierrors.APIStatus
	if err != nil && !errors.As(err, &known) {
		err = apierrors.NewInternalError(err)
	}
	return changed, err
}
