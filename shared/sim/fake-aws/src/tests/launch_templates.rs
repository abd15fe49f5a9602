use super::super::requests::{DeleteLaunchTemplate, Describe};
use super::*;

#[test]
fn a_name_is_used_once_and_a_token_repeats_the_answer() {
    let ec2 = ec2();
    let mut request = template("nodes");
    assert_eq!(
        ec2.create_launch_template(&request).unwrap_err().code,
        "InvalidLaunchTemplateName.AlreadyExistsException"
    );
    request.launch_template_name = Some("others".to_owned());
    request.client_token = Some("token".to_owned());
    let first = ec2.create_launch_template(&request).unwrap();
    assert_eq!(ec2.create_launch_template(&request).unwrap(), first);
    request.version_description = Some("changed".to_owned());
    assert_eq!(ec2.create_launch_template(&request).unwrap_err().code, "IdempotentParameterMismatch");
}

#[test]
fn versions_count_up_and_latest_and_default_differ() {
    let ec2 = ec2();
    let mut second = template("nodes");
    second.launch_template_data.as_mut().unwrap().instance_type = Some("m5.large".to_owned());
    ec2.create_launch_template_version(&second).unwrap();
    let describe = |version: &str| {
        let request =
            Describe { names: vec!["nodes".to_owned()], versions: vec![version.to_owned()], ..Describe::default() };
        ec2.describe_launch_template_versions(&request).map(|(found, _)| found[0].1.number)
    };
    assert_eq!(describe("$Latest").unwrap(), 2);
    assert_eq!(describe("$Default").unwrap(), 1);
    assert_eq!(describe("7").unwrap_err().code, "InvalidLaunchTemplateId.VersionNotFound");
}

#[test]
fn what_is_not_there_is_not_found() {
    let ec2 = ec2();
    let by_name = Describe { names: vec!["gone".to_owned()], ..Describe::default() };
    let code = ec2.describe_launch_templates(&by_name).unwrap_err().code;
    assert_eq!(code, "InvalidLaunchTemplateName.NotFoundException");
    let delete = DeleteLaunchTemplate { launch_template_name: Some("nodes".to_owned()), ..Default::default() };
    ec2.delete_launch_template(&delete).unwrap();
    assert_eq!(ec2.delete_launch_template(&delete).unwrap_err().code, "InvalidLaunchTemplateName.NotFoundException");
}

#[test]
fn malformed_templates_are_refused() {
    let ec2 = ec2();
    let code = |request: &CreateLaunchTemplate| ec2.create_launch_template(request).unwrap_err().code;
    assert_eq!(code(&template("a b")), "InvalidLaunchTemplateName.MalformedException");
    let mut request = template("fine");
    let data = request.launch_template_data.as_mut().unwrap();
    data.other.insert("InstanceRequirements".to_owned(), json!({}));
    assert_eq!(code(&request), "UnsupportedOperation");
    let mut request = template("fine");
    request.launch_template_data.as_mut().unwrap().user_data = Some("not base64!".to_owned());
    assert_eq!(code(&request), "InvalidUserData.Malformed");
    request.launch_template_data.as_mut().unwrap().user_data = Some("AAAA".repeat(5462));
    assert_eq!(code(&request), "InvalidUserData.Malformed");
    request.launch_template_data = None;
    assert_eq!(code(&request), "MissingParameter");
}
