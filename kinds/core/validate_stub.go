package core

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePod(p, old *v1.Pod) field.ErrorList                                { return nil }
func validatePodStatus(p, old *v1.Pod) field.ErrorList                          { return nil }
func validateEphemeralContainers(p, old *v1.Pod) field.ErrorList                { return nil }
func validateResize(p, old *v1.Pod) field.ErrorList                             { return nil }
func warnPod(p, old *v1.Pod) []string                                           { return nil }
func validateNode(p, old *v1.Node) field.ErrorList                              { return nil }
func warnNode(p, old *v1.Node) []string                                         { return nil }
func validateNamespace(p, old *v1.Namespace) field.ErrorList                    { return nil }
func validateNamespaceStatus(p, old *v1.Namespace) field.ErrorList              { return nil }
func validateService(p, old *v1.Service) field.ErrorList                        { return nil }
func validateServiceStatus(p, old *v1.Service) field.ErrorList                  { return nil }
func warnService(p, old *v1.Service) []string                                   { return nil }
func validateEndpoints(p, old *v1.Endpoints) field.ErrorList                    { return nil }
func validateEvent(p, old *v1.Event) field.ErrorList                            { return nil }
func validateConfigMap(p, old *v1.ConfigMap) field.ErrorList                    { return nil }
func validateSecret(p, old *v1.Secret) field.ErrorList                          { return nil }
func warnSecret(p, old *v1.Secret) []string                                     { return nil }
func warnServiceAccount(p, old *v1.ServiceAccount) []string                     { return nil }
func validateVolume(p, old *v1.PersistentVolume) field.ErrorList                { return nil }
func validateVolumeStatus(p, old *v1.PersistentVolume) field.ErrorList          { return nil }
func warnVolume(p, old *v1.PersistentVolume) []string                           { return nil }
func validateClaim(p, old *v1.PersistentVolumeClaim) field.ErrorList            { return nil }
func validateClaimStatus(p, old *v1.PersistentVolumeClaim) field.ErrorList      { return nil }
func warnClaim(p, old *v1.PersistentVolumeClaim) []string                       { return nil }
func validateQuota(p, old *v1.ResourceQuota) field.ErrorList                    { return nil }
func validateQuotaStatus(p, old *v1.ResourceQuota) field.ErrorList              { return nil }
func validateLimitRange(p, old *v1.LimitRange) field.ErrorList                  { return nil }
func validateController(p, old *v1.ReplicationController) field.ErrorList       { return nil }
func validateControllerStatus(p, old *v1.ReplicationController) field.ErrorList { return nil }
func warnController(p, old *v1.ReplicationController) []string                  { return nil }
func validatePodTemplate(p, old *v1.PodTemplate) field.ErrorList                { return nil }
func warnPodTemplate(p, old *v1.PodTemplate) []string                           { return nil }
func validateBinding(p, old *v1.Binding) field.ErrorList                        { return nil }
