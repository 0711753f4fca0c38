package openapi

import "testing"

// What other servers say of themselves may be wrong in any way.
func TestForeignDocuments(t *testing.T) {
	for name, doc := range map[string]string{
		"no responses":     `{"paths":{"/x":{"get":{}}}}`,
		"no response":      `{"paths":{"/x":{"get":{"responses":{"200":null,"default":null}}}}}`,
		"no path":          `{"paths":{"/x":null}}`,
		"no schema":        `{"paths":{"/x":{"post":{"parameters":[{"in":"body"},{"in":"formData"},null],"responses":{}}}}}`,
		"no definition":    `{"definitions":{"a":null,"b":{"items":[null],"allOf":[null],"properties":{"c":null}}}}`,
		"no parameter":     `{"parameters":{"a":null},"responses":{"b":null},"securityDefinitions":{"c":null}}`,
		"nothing":          `{}`,
		"no document":      `null`,
		"another document": `{"openapi":"3.0.0","paths":{"/x":{"get":{"requestBody":{"content":{"a":{}}}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := V2ToV3([]byte(doc)); err != nil {
				t.Error(err)
			}
		})
	}
}
