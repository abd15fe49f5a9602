# The location of the functions' zips: a local folder, or S3.

data "aws_s3_object" "checksums" {
  count = var.artifacts_s3 == null ? 0 : 1

  bucket = var.artifacts_s3.bucket
  key    = "${var.artifacts_s3.prefix}checksums.json"

  lifecycle {
    postcondition {
      condition     = self.body != null && alltrue([for name in local.function_names : can(jsondecode(self.body)[name])])
      error_message = "s3://${var.artifacts_s3.bucket}/${var.artifacts_s3.prefix}checksums.json must have the content type application/json and a checksum for each function. Upload the folder lambda of a release as it is: aws s3 cp --recursive lambda s3://${var.artifacts_s3.bucket}/${var.artifacts_s3.prefix}"
    }
  }
}

locals {
  # SHA-256 of each zip in base64, as Lambda reports it: Terraform updates a function when it changes.
  artifact_hashes = {
    for name in local.function_names : name => var.artifacts_s3 == null ? filebase64sha256("${var.artifacts_directory}/${name}/bootstrap.zip") : jsondecode(data.aws_s3_object.checksums[0].body)[name]
  }
}
