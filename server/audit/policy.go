package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/auth"
)

// A Policy says what is recorded of which requests.
type Policy struct{ p auditv1.Policy }

// A Verdict is a policy's decision about one request.
type Verdict struct {
	Level    auditv1.Level
	Omit     []auditv1.Stage // stages that are not recorded
	NoFields bool            // managedFields are left out of bodies
}

var levels = []auditv1.Level{auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}

var stages = []auditv1.Stage{auditv1.StageRequestReceived, auditv1.StageResponseStarted, auditv1.StageResponseComplete, auditv1.StagePanic}

// ParsePolicy reads a Policy (audit.k8s.io/v1).
func ParsePolicy(data []byte) (*Policy, error) {
	var p auditv1.Policy
	if err := yaml.UnmarshalStrict(data, &p); err != nil {
		return nil, fmt.Errorf("read the audit policy: %w", err)
	}
	if p.Kind != "Policy" || p.APIVersion != auditv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("the audit policy is a %q of %q: write kind Policy, apiVersion %s", p.Kind, p.APIVersion,
			auditv1.SchemeGroupVersion)
	}
	if len(p.Rules) == 0 {
		return nil, errors.New("the audit policy has no rules: nothing would be recorded")
	}
	errs := []error{checkStages("omitStages", p.OmitStages)}
	for i := range p.Rules {
		errs = append(errs, checkRule(fmt.Sprintf("rules[%d]", i), &p.Rules[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the audit policy: %w", err)
	}
	return &Policy{p}, nil
}

func checkStages(at string, list []auditv1.Stage) error {
	for i, s := range list {
		if !slices.Contains(stages, s) {
			return fmt.Errorf("%s[%d]: %q: use one of %v", at, i, s, stages)
		}
	}
	return nil
}

func checkRule(at string, r *auditv1.PolicyRule) error {
	var errs []error
	if !slices.Contains(levels, r.Level) {
		errs = append(errs, fmt.Errorf("%s.level: %q: use one of %v", at, r.Level, levels))
	}
	for i, u := range r.NonResourceURLs {
		if u != "*" && !strings.HasPrefix(u, "/") {
			errs = append(errs, fmt.Errorf("%s.nonResourceURLs[%d]: %q must begin with /", at, i, u))
		}
		if u != "" && strings.Contains(u[:len(u)-1], "*") {
			errs = append(errs, fmt.Errorf("%s.nonResourceURLs[%d]: %q: * can only be at the end", at, i, u))
		}
	}
	if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) > 0 {
		errs = append(errs, fmt.Errorf("%s: a rule is for resources or for nonResourceURLs, not for both", at))
	}
	for i, g := range r.Resources {
		where := fmt.Sprintf("%s.resources[%d]", at, i)
		if g.Group != "" && g.Group != "*" && len(validation.IsDNS1123Subdomain(g.Group)) > 0 {
			errs = append(errs, fmt.Errorf("%s.group: %q is no API group", where, g.Group))
		}
		if len(g.ResourceNames) > 0 && len(g.Resources) == 0 {
			errs = append(errs, fmt.Errorf("%s.resourceNames: resources are needed as well", where))
		}
	}
	return errors.Join(append(errs, checkStages(at+".omitStages", r.OmitStages))...)
}

// Judge finds the first rule that matches; without one nothing is recorded. a.User is nil when nobody was authenticated.
func (p *Policy) Judge(a *auth.Attributes) Verdict {
	for i := range p.p.Rules {
		r := &p.p.Rules[i]
		if !matches(r, a) {
			continue
		}
		v := Verdict{Level: r.Level, Omit: p.p.OmitStages, NoFields: p.p.OmitManagedFields}
		if len(r.OmitStages) > 0 {
			v.Omit = append(slices.Clone(v.Omit), r.OmitStages...)
		}
		if r.OmitManagedFields != nil {
			v.NoFields = *r.OmitManagedFields
		}
		return v
	}
	return Verdict{Level: auditv1.LevelNone}
}

func matches(r *auditv1.PolicyRule, a *auth.Attributes) bool {
	if len(r.Users) > 0 && (a.User == nil || !slices.Contains(r.Users, a.User.Name)) {
		return false
	}
	if len(r.UserGroups) > 0 && !slices.ContainsFunc(r.UserGroups, a.User.In) {
		return false
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb) {
		return false
	}
	switch {
	case len(r.Namespaces) > 0 || len(r.Resources) > 0:
		return a.Resource != "" && (len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, a.Namespace)) && matchesResource(r.Resources, a)
	case len(r.NonResourceURLs) > 0:
		return a.Resource == "" && slices.ContainsFunc(r.NonResourceURLs, func(u string) bool {
			head, wild := strings.CutSuffix(u, "*")
			return u == a.Path || wild && strings.HasPrefix(a.Path, head)
		})
	}
	return true
}

func matchesResource(list []auditv1.GroupResources, a *auth.Attributes) bool {
	if len(list) == 0 {
		return true
	}
	whole := a.Resource
	if a.Subresource != "" {
		whole += "/" + a.Subresource
	}
	for _, g := range list {
		if g.Group != a.Group && g.Group != "*" {
			continue
		}
		if len(g.Resources) == 0 {
			return true
		}
		if len(g.ResourceNames) > 0 && !slices.Contains(g.ResourceNames, a.Name) {
			continue
		}
		for _, r := range g.Resources {
			if r == "*" || r == whole || r == a.Resource+"/*" || a.Subresource != "" && r == "*/"+a.Subresource {
				return true
			}
		}
	}
	return false
}
