package openapi

import (
	"crypto/sha512"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	groupName    = meta + "APIGroup"
	groupsName   = meta + "APIGroupList"
	versionsName = meta + "APIVersions"
	versionName  = "io.k8s.apimachinery.pkg.version.Info"
)

// rootPages are the documents of paths that lead to the API or tell of the server, by their place in the index.
func rootPages() map[string]route {
	json := []string{"application/json"}
	return map[string]route{
		"api":     page("/api/", "core", "getCoreAPIVersions", "get available API versions", versionsName, mediaTypes),
		"apis":    page("/apis/", "apis", "getAPIVersions", "get available API versions", groupsName, mediaTypes),
		"version": page("/version/", "version", "getCodeVersion", "get the version information for this server", versionName, json),
		".well-known/openid-configuration": open(page("/.well-known/openid-configuration/", "WellKnown",
			"getServiceAccountIssuerOpenIDConfiguration", "get the OpenID configuration of the issuer of service account tokens", "", json)),
		"openid/v1/jwks": open(page("/openid/v1/jwks/", "openid", "getServiceAccountIssuerOpenIDKeyset",
			"get the public keys that verify service account tokens, as a JSON Web Key Set", "", []string{"application/jwk-set+json"})),
	}
}

// groupPage is the document of a group of built-in kinds.
func groupPage(group string) route {
	id, tag := friendly(schema.GroupVersion{Group: group})
	return page("/apis/"+group+"/", strings.TrimSuffix(tag, "_"), "get"+id+"APIGroup", "get information of a group", groupName, mediaTypes)
}

func page(path, tag, id, doc, out string, produces []string) route {
	return route{path: path, ops: []operation{{method: "get", id: id, doc: doc, tag: tag, out: out, produces: produces,
		codes: []string{"200", "401"}}}}
}

// open takes the refusal of strangers from a page.
func open(r route) route {
	r.ops[0].codes = []string{"200"}
	return r
}

// pageDocument makes the document of one page.
func (b *builder) pageDocument(r route) object {
	return b.v3Document([]route{r}, b.used([]route{r}))
}

// pageMark changes when the document of a page does, which it does with the program only.
func (d *Docs) pageMark(path string) string {
	return fmt.Sprintf("%X", sha512.Sum512([]byte(fmt.Sprintln(len(newest), d.set.Features(), path))))
}
