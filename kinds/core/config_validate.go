package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

var (
	dataPath   = field.NewPath("data")
	binaryPath = field.NewPath("binaryData")
)

func validateConfigMap(c, old *v1.ConfigMap) (errs field.ErrorList) {
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, rule.Format(key, dataPath.Key(key), utilvalidation.IsConfigMapKey)...)
		if _, both := c.BinaryData[key]; both {
			errs = append(errs, field.Invalid(dataPath.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, rule.Format(key, binaryPath.Key(key), utilvalidation.IsConfigMapKey)...)
		size += len(c.BinaryData[key])
	}
	if size > v1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", v1.MaxSecretSize))
	}
	if old == nil || !isSet(old.Immutable) {
		return errs
	}
	errs = append(errs, frozen(c.Immutable, maps.Equal(c.Data, old.Data))...)
	if !maps.EqualFunc(c.BinaryData, old.BinaryData, bytes.Equal) {
		errs = append(errs, field.Forbidden(binaryPath, immutable))
	}
	return errs
}

const immutable = "field is immutable when `immutable` is set"

func isSet(b *bool) bool { return b != nil && *b }

// frozen checks what was declared not to change any more.
func frozen(still *bool, same bool) (errs field.ErrorList) {
	if !isSet(still) {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutable))
	}
	if !same {
		errs = append(errs, field.Forbidden(dataPath, immutable))
	}
	return errs
}

func validateSecret(s, old *v1.Secret) (errs field.ErrorList) {
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, rule.Format(key, dataPath.Key(key), utilvalidation.IsConfigMapKey)...)
		size += len(s.Data[key])
	}
	if size > v1.MaxSecretSize {
		errs = append(errs, field.TooLong(dataPath, "", v1.MaxSecretSize))
	}
	errs = append(errs, validateSecretType(s)...)
	if old == nil {
		return errs
	}
	errs = append(errs, validation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type"))...)
	if isSet(old.Immutable) {
		errs = append(errs, frozen(s.Immutable, maps.EqualFunc(s.Data, old.Data, bytes.Equal))...)
	}
	return errs
}

// validateSecretType asks for the keys that the type promises.
func validateSecretType(s *v1.Secret) (errs field.ErrorList) {
	need := func(keys ...string) {
		for _, key := range keys {
			if _, ok := s.Data[key]; !ok {
				errs = append(errs, field.Required(dataPath.Key(key), ""))
			}
		}
	}
	switch s.Type {
	case v1.SecretTypeServiceAccountToken:
		if s.Annotations[v1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(v1.ServiceAccountNameKey), ""))
		}
	case v1.SecretTypeDockercfg:
		need(v1.DockerConfigKey)
		errs = append(errs, validateJSON(s, v1.DockerConfigKey)...)
	case v1.SecretTypeDockerConfigJson:
		need(v1.DockerConfigJsonKey)
		errs = append(errs, validateJSON(s, v1.DockerConfigJsonKey)...)
	case v1.SecretTypeBasicAuth:
		_, user := s.Data[v1.BasicAuthUsernameKey]
		if _, password := s.Data[v1.BasicAuthPasswordKey]; !user && !password {
			need(v1.BasicAuthUsernameKey, v1.BasicAuthPasswordKey)
		}
	case v1.SecretTypeSSHAuth:
		if len(s.Data[v1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(dataPath.Key(v1.SSHAuthPrivateKey), ""))
		}
	case v1.SecretTypeTLS:
		need(v1.TLSCertKey, v1.TLSPrivateKeyKey)
	}
	return errs
}

func validateJSON(s *v1.Secret, key string) field.ErrorList {
	data, ok := s.Data[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(data, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(dataPath.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}
