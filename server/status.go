package server

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// statusOnly are the kinds whose metadata a write of the status leaves alone. Through the status of the others labels,
// annotations, finalizers and owners can be changed.
var statusOnly = map[schema.GroupResource]bool{
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}: true,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                       true,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:               true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                 true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: true,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:                           true,
	{Group: "resource.k8s.io", Resource: "devicetaintrules"}:                         true,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:                           true,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                         true,
	{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}:         true,
}

// keepForStatus restores the metadata that a write of the status may not change.
func keepForStatus(k resource.Kind, obj, old resource.Object) {
	switch gr := k.Info().GR(); {
	case statusOnly[gr]:
		metav1.ResetObjectMetaForStatus(obj, old)
	case gr == deployments:
		obj.SetLabels(old.GetLabels())
	}
}

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
