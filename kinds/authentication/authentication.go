// Package authentication declares the reviews that say who somebody is. None is ever stored.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/kloop-dev/kloop/resource"
)

// TokenReviews declares the kind: whose is this token?
var TokenReviews = &resource.Def[*authenticationv1.TokenReview]{
	GVK: authenticationv1.SchemeGroupVersion.WithKind("TokenReview"), Plural: "tokenreviews", Virtual: true,
}

// SelfSubjectReviews declares the kind: who am I?
var SelfSubjectReviews = &resource.Def[*authenticationv1.SelfSubjectReview]{
	GVK: authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), Plural: "selfsubjectreviews", Virtual: true,
}
