package review

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// What upstream says of a selector that it can't read, and of one of which it can read a part.
const (
	ignored = "ignored due to parse error"
	partly  = "partially ignored due to parse error"
)

// fieldText turns field requirements into selector text. What cannot be written so is left out, which doubt says:
// a selector with less in it selects more, so no authorizer can allow more because of it.
func fieldText(s *authorizationv1.FieldSelectorAttributes) (text, doubt string) {
	if s == nil {
		return "", ""
	}
	if s.RawSelector != "" {
		if _, err := fields.ParseSelector(s.RawSelector); err != nil {
			return "", ignored
		}
		return s.RawSelector, ""
	}
	var all []fields.Selector
	for _, r := range s.Requirements {
		switch {
		case len(r.Values) != 1:
		case r.Operator == metav1.FieldSelectorOpIn:
			all = append(all, fields.OneTermEqualSelector(r.Key, r.Values[0]))
		case r.Operator == metav1.FieldSelectorOpNotIn:
			all = append(all, fields.OneTermNotEqualSelector(r.Key, r.Values[0]))
		}
	}
	return fields.AndSelectors(all...).String(), doubtful(len(all), len(s.Requirements))
}

// doubtful says how much of a selector counts.
func doubtful(read, all int) string {
	switch read {
	case all:
		return ""
	case 0:
		return ignored
	}
	return partly
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
	metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// labelText is fieldText for labels.
func labelText(s *authorizationv1.LabelSelectorAttributes) (text, doubt string) {
	if s == nil {
		return "", ""
	}
	if s.RawSelector != "" {
		if _, err := labels.Parse(s.RawSelector); err != nil {
			return "", ignored
		}
		return s.RawSelector, ""
	}
	all := make([]labels.Requirement, 0, len(s.Requirements))
	for _, r := range s.Requirements {
		if req, err := labels.NewRequirement(r.Key, labelOperators[r.Operator], r.Values); err == nil {
			all = append(all, *req)
		}
	}
	text = labels.NewSelector().Add(all...).String() // at once: every Add copies and sorts
	return text, doubtful(len(all), len(s.Requirements))
}
