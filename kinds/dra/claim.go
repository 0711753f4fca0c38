package dra

import (
	"encoding/json"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds/rule"
)

// claim checks what a claim asks for.
func claim(on *features.Set, c *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	names := known(c)
	errs := unlike(c.Requests, resourcev1.DeviceRequestsMaxSize, path.Child("requests"),
		func(r resourcev1.DeviceRequest) string { return r.Name },
		func(r resourcev1.DeviceRequest, at *field.Path) field.ErrorList { return request(on, r, at) })
	errs = append(errs, each(c.Constraints, resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"),
		func(k resourcev1.DeviceConstraint, at *field.Path) field.ErrorList {
			return constraint(on, k, names, at)
		})...)
	return append(errs, each(c.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(k resourcev1.DeviceClaimConfiguration, at *field.Path) field.ErrorList {
			return append(requestNames(k.Requests, names, at.Child("requests")), configuration(k.DeviceConfiguration, at)...)
		})...)
}

// known returns the names of all requests, and those of their alternatives as request/alternative.
func known(c *resourcev1.DeviceClaim) map[string]bool {
	names := map[string]bool{}
	for _, r := range c.Requests {
		names[r.Name] = true
		for _, f := range r.FirstAvailable {
			names[r.Name+"/"+f.Name] = true
		}
	}
	return names
}

func request(on *features.Set, r resourcev1.DeviceRequest, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.Format(r.Name, path.Child("name"), rule.Label)...)
	switch e := r.Exactly; {
	case e != nil && len(r.FirstAvailable) > 0:
		errs = append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
		if !on.AtLeast(37) {
			return errs
		}
		errs = append(errs, declared(e.AllocationMode, e.Tolerations, path.Child("exactly"))...)
		return append(errs, alternatives(r.FirstAvailable, path, classNamed)...)
	case e == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case e != nil:
		return append(errs, wish(wanted{e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations}, path.Child("exactly"))...)
	}
	return append(errs, alternatives(r.FirstAvailable, path, alternative)...)
}

func alternatives(list []resourcev1.DeviceSubRequest, path *field.Path,
	check func(resourcev1.DeviceSubRequest, *field.Path) field.ErrorList) field.ErrorList {
	return unlike(list, resourcev1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"),
		func(f resourcev1.DeviceSubRequest) string { return f.Name }, check)
}

// classNamed judges alternatives that should not be there.
func classNamed(f resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
	errs := rule.NeededFormat(f.DeviceClassName, path.Child("deviceClassName"), rule.Subdomain)
	return append(errs, declared(f.AllocationMode, f.Tolerations, path)...)
}

// declared holds what is wished for to the rules that upstream declares at the type: they hold wherever it stands.
func declared(mode resourcev1.DeviceAllocationMode, list []resourcev1.DeviceToleration, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, allocationMode(mode, path.Child("allocationMode"))...)
	for i, t := range list {
		at := path.Child("tolerations").Index(i)
		if t.Key != "" {
			errs = append(errs, rule.Format(t.Key, at.Child("key"), validation.IsQualifiedName)...)
		}
		errs = append(errs, operator(t.Operator, at.Child("operator"))...)
		errs = append(errs, effect(t.Effect, at.Child("effect"))...)
	}
	return errs
}

func allocationMode(mode resourcev1.DeviceAllocationMode, path *field.Path) field.ErrorList {
	return rule.Among(mode, path, resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
}

func operator(o resourcev1.DeviceTolerationOperator, path *field.Path) field.ErrorList {
	return rule.Chosen(o, path, resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)
}

func effect(e resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	if e == "" {
		return nil
	}
	return rule.Among(e, path, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone)
}

func alternative(f resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
	errs := rule.Format(f.Name, path.Child("name"), rule.Label)
	return append(errs, wish(wanted{f.DeviceClassName, f.Selectors, f.AllocationMode, f.Count, f.Tolerations}, path)...)
}

// wanted holds what a request and its alternatives have in common.
type wanted struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func wish(w wanted, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, rule.NeededFormat(w.class, path.Child("deviceClassName"), rule.Subdomain)...)
	errs = append(errs, selectors(w.selectors, path.Child("selectors"))...)
	switch w.mode {
	case resourcev1.DeviceAllocationModeAll:
		if w.count != 0 {
			errs = append(errs, field.Invalid(path.Child("count"), w.count, "must not be specified when allocationMode is 'All'"))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if w.count <= 0 {
			errs = append(errs, field.Invalid(path.Child("count"), w.count, "must be greater than zero"))
		}
	default:
		errs = append(errs, allocationMode(w.mode, path.Child("allocationMode"))...)
	}
	for i, t := range w.tolerations {
		errs = append(errs, toleration(t, path.Child("tolerations").Index(i))...)
	}
	return errs
}

func toleration(t resourcev1.DeviceToleration, path *field.Path) (errs field.ErrorList) {
	if t.Key != "" {
		errs = append(errs, rule.Format(t.Key, path.Child("key"), validation.IsQualifiedName)...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, rule.Format(t.Value, path.Child("value"), validation.IsValidLabelValue)...)
	default:
		errs = append(errs, operator(t.Operator, path.Child("operator"))...)
	}
	return append(errs, effect(t.Effect, path.Child("effect"))...)
}

// constraint checks what several devices have in common. Until 1.37 one attribute alone was looked at.
func constraint(on *features.Set, c resourcev1.DeviceConstraint, names map[string]bool, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, requestNames(c.Requests, names, path.Child("requests"))...)
	if c.MatchAttribute != nil {
		errs = append(errs, fullName(string(*c.MatchAttribute), path.Child("matchAttribute"))...)
	}
	if c.DistinctAttribute != nil && (c.MatchAttribute == nil || on.AtLeast(37)) {
		errs = append(errs, fullName(string(*c.DistinctAttribute), path.Child("distinctAttribute"))...)
	}
	if c.MatchAttribute == nil && c.DistinctAttribute == nil {
		errs = append(errs, field.Required(path,
			`exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
	}
	return errs
}

func requestNames(list []string, known map[string]bool, path *field.Path) field.ErrorList {
	return unlike(list, resourcev1.DeviceRequestsMaxSize, path, itself,
		func(n string, at *field.Path) field.ErrorList { return requestName(n, known, at) })
}

// requestName checks a reference to a request, or to one of its alternatives: request/alternative.
func requestName(n string, known map[string]bool, path *field.Path) (errs field.ErrorList) {
	if strings.Count(n, "/") <= 1 {
		for part := range strings.SplitSeq(n, "/") {
			errs = append(errs, rule.Format(part, path, rule.Label)...)
		}
	}
	if !known[n] {
		errs = append(errs, field.Invalid(path, n,
			"must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"))
	}
	return errs
}

func configuration(c resourcev1.DeviceConfiguration, path *field.Path) (errs field.ErrorList) {
	opaque := path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(opaque, "")}
	}
	errs = append(errs, driver(c.Opaque.Driver, opaque.Child("driver"))...)
	return append(errs, object(c.Opaque.Parameters, resourcev1.OpaqueParametersMaxLength, opaque.Child("parameters"))...)
}

// object checks that raw JSON is an object and not too large.
func object(raw runtime.RawExtension, max int, path *field.Path) field.ErrorList {
	var v any
	switch {
	case len(raw.Raw) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(raw.Raw) > max:
		return field.ErrorList{field.TooLong(path, "", max)}
	}
	if err := json.Unmarshal(raw.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "error parsing data as JSON: "+err.Error())}
	}
	if v == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if _, ok := v.(map[string]any); !ok {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}

func driver(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(path, name, resourcev1.DriverNameMaxLength))
	}
	return append(errs, rule.Says(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, path)...)
}

// fullName checks the name of an attribute with its domain: dra.example.com/model.
func fullName(name string, path *field.Path) field.ErrorList {
	errs := qualified(name, path)
	if !strings.Contains(name, "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

// qualified checks a C identifier, perhaps after a domain and a slash. Names with more slashes pass, as upstream.
func qualified(name string, path *field.Path) (errs field.ErrorList) {
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return identifier(name, path)
	case 2:
		if parts[0] == "" {
			errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
		} else {
			errs = append(errs, driver(parts[0], path)...)
		}
		if parts[1] == "" {
			return append(errs, field.Invalid(path, "", "the name must not be empty"))
		}
		return append(errs, identifier(parts[1], path)...)
	}
	return nil
}

func identifier(id string, path *field.Path) (errs field.ErrorList) {
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, id, resourcev1.DeviceMaxIDLength))
	}
	return append(errs, rule.Says(validation.IsCIdentifier(id), id, path)...)
}

// poolName checks subdomains separated by slashes.
func poolName(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, name, resourcev1.PoolNameMaxLength))
	}
	for _, part := range strings.Split(name, "/") {
		errs = append(errs, rule.Format(part, path, rule.Subdomain)...)
	}
	return errs
}
