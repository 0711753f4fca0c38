//go:build !reader

package apiextensions

import (
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/transport"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// reviewVersions are the versions of ConversionReview that are spoken.
var reviewVersions = []string{"v1", "v1beta1"}

// conversion is strict about what is left over: a webhook's settings under the strategy None were surely meant to be used.
func conversion(c *apiextensions.CustomResourceConversion, l ratcheting, path *field.Path) (errs field.ErrorList) {
	if c == nil {
		return nil
	}
	errs = append(errs, rule.Chosen(c.Strategy, path.Child("strategy"), apiextensions.NoneConverter, apiextensions.WebhookConverter)...)
	client, reviews := path.Child("webhookClientConfig"), path.Child("conversionReviewVersions")
	if c.Strategy != apiextensions.WebhookConverter {
		if c.WebhookClientConfig != nil {
			errs = append(errs, field.Forbidden(client, "should not be set when strategy is not set to Webhook"))
		}
		if len(c.ConversionReviewVersions) > 0 {
			errs = append(errs, field.Forbidden(reviews, "should not be set when strategy is not set to Webhook"))
		}
		return errs
	}
	if c.WebhookClientConfig == nil {
		errs = append(errs, field.Required(client, "required when strategy is set to Webhook"))
	} else {
		errs = append(errs, webhook(c.WebhookClientConfig, l, client)...)
	}
	return append(errs, reviewRules(c.ConversionReviewVersions, l, reviews)...)
}

// webhook names the program that converts. A broken caBundle would make all objects of the kind unreadable, so it is refused, but for
// definitions that serve nothing yet or have had a broken one before (l.ca).
func webhook(c *apiextensions.WebhookClientConfig, l ratcheting, path *field.Path) (errs field.ErrorList) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		errs = append(errs, field.Required(path, "exactly one of url or service is required"))
	case c.URL != nil:
		errs = append(errs, rule.WebhookURL(*c.URL, path.Child("url"))...)
	default: // as upstream, what is missing is called by the other's name
		errs = append(errs, rule.WebhookService(c.Service.Name, c.Service.Namespace, c.Service.Path, &c.Service.Port, path.Child("service"))...)
	}
	if len(c.CABundle) > 0 && !l.ca {
		if err := badCertificates(c.CABundle); err != nil {
			errs = append(errs, field.Invalid(path.Child("caBundle"), c.CABundle, err.Error()))
		}
	}
	return errs
}

// badCertificates says why a CA bundle can't be read; nil if it can.
func badCertificates(bundle []byte) error {
	_, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{CAData: bundle}})
	return err
}

// reviewRules are the forms of ConversionReview that the webhook understands, as reviewVersions of an admission webhook.
func reviewRules(list []string, l ratcheting, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	known, seen := false, sets.New[string]()
	for i, v := range list {
		if seen.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		seen.Insert(v)
		errs = append(errs, rule.Format(v, path.Index(i), validation.IsDNS1035Label)...)
		known = known || slices.Contains(reviewVersions, v)
	}
	if !known && !l.reviews {
		errs = append(errs, field.Invalid(path, list, "must include at least one of "+strings.Join(reviewVersions, ", ")))
	}
	return errs
}
