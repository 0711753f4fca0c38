package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
)

// leaving is a caller who goes while he is asked about for the third time.
type leaving struct {
	asked int
	gone  context.CancelFunc
}

func (l *leaving) Authorize(context.Context, *auth.Attributes) (auth.Decision, string, error) {
	if l.asked++; l.asked == 3 {
		l.gone()
	}
	return auth.Allow, "", nil
}

// What a client does not wait for is evaluated no further, in one policy or in many, and lets nothing pass. Evaluations are counted.
func TestAbandonedPoliciesEnd(t *testing.T) {
	const many = 40
	asks := func(i int) string {
		return fmt.Sprintf("authorizer.group('').resource('pods').check('v%d').allowed()", i)
	}
	validations := "failurePolicy: Ignore\nvalidations:"
	for i := range many {
		validations += fmt.Sprintf("\n- {expression: \"%s\"}", asks(i))
	}
	single := []string{validating(validations), bound("Deny", "")}
	var severally, changing []string
	for i := range many {
		name := strings.NewReplacer("{name: p}", fmt.Sprintf("{name: p%d}", i), "{name: b}", fmt.Sprintf("{name: b%d}", i),
			"policyName: p", fmt.Sprintf("policyName: p%d", i))
		severally = append(severally, name.Replace(validating("failurePolicy: Ignore\nvalidations: [{expression: \""+asks(i)+"\"}]")),
			name.Replace(bound("Deny", "")))
		changing = append(changing, mutating(fmt.Sprint("p", i), "failurePolicy: Ignore\nreinvocationPolicy: Never\n"+
			applies(fmt.Sprintf("Object{data: {'k%d': string(%s)}}", i, asks(i)))))
	}
	for what, docs := range map[string][]string{"one policy": single, "many": severally, "mutations": changing} {
		t.Run(what, func(t *testing.T) {
			w := begin(t, docs...)
			ctx, cancel := context.WithCancel(t.Context())
			l := &leaving{gone: cancel}
			w.policies.Authorize = l
			r := w.request(configMap(nil))
			var err error
			if what == "mutations" {
				err = admission.Chain{w.policies.Mutating()}.Mutate(ctx, r)
			} else {
				err = admission.Chain{w.policies.Validating()}.Validate(ctx, r)
			}
			if !apierrors.IsTimeout(err) || l.asked > 4 {
				t.Errorf("%s: %d of %d expressions were evaluated, and the client was gone after 3; %v", what, l.asked, many, err)
			}
			cancel()
		})
	}
}
