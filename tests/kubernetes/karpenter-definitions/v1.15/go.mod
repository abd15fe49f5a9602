module nodeless/tests/kubernetes/karpenter-definitions/v1.15

go 1.26.0

require github.com/aws/karpenter-provider-aws v1.15.1
