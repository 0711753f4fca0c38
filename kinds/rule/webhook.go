package rule

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WebhookURL checks the address of a webhook: https, a host, perhaps a path, nothing else.
func WebhookURL(text string, path *field.Path) (errs field.ErrorList) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	user := ""
	if u.User != nil {
		user = u.User.String()
	}
	for _, bad := range []struct {
		is    bool
		value string
		says  string
	}{
		{u.Scheme != "https", u.Scheme, "'https' is the only allowed URL scheme" + form},
		{u.Host == "", u.Host, "host must be specified" + form},
		{u.User != nil, user, "user information is not permitted in the URL"},
		{u.Fragment != "", u.Fragment, "fragments are not permitted in the URL"},
		{u.RawQuery != "", u.RawQuery, "query parameters are not permitted in the URL"},
	} {
		if bad.is {
			errs = append(errs, field.Invalid(path, bad.value, bad.says))
		}
	}
	return errs
}

// WebhookService checks a reference to the service behind a webhook. A port that is not set is 443.
func WebhookService(namespace, name string, urlPath *string, port *int32, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, Needed(name, path.Child("name"))...)
	errs = append(errs, Needed(namespace, path.Child("namespace"))...)
	if port != nil {
		if says := validation.IsValidPortNum(int(*port)); len(says) > 0 {
			errs = append(errs, field.Invalid(path.Child("port"), *port, "port is not valid: "+strings.Join(says, ", ")))
		}
	}
	if urlPath != nil {
		errs = append(errs, webhookPath(*urlPath, path.Child("path"))...)
	}
	return errs
}

func webhookPath(p string, path *field.Path) (errs field.ErrorList) {
	if p == "" || p == "/" {
		return nil
	}
	if p == "//" {
		return field.ErrorList{field.Invalid(path, p, "segment[0] may not be empty")}
	}
	if !strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must start with a '/'"))
	}
	for i, step := range strings.Split(strings.TrimSuffix(p[1:], "/"), "/") {
		if step == "" {
			errs = append(errs, field.Invalid(path, p, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, says := range validation.IsDNS1123Subdomain(step) {
			errs = append(errs, field.Invalid(path, p, fmt.Sprintf("segment[%d]: %s", i, says)))
		}
	}
	return errs
}
