use axum::http::{Method, Request, request::Parts};
use serde_json::json;

use super::super::query::QueryNode;
use super::super::requests::{CreateFleet, CreateLaunchTemplate};
use super::super::tests::{account, ec2, start};
use super::super::{Account, Ec2};
use super::router::dispatch;

fn parts(path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(if path == "/" { "POST" } else { "GET" }).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn scope(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKID/20260105/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}

async fn send(ec2: &Ec2, parts: Parts, body: &str) -> (u16, String) {
    let response = dispatch(ec2, "id-1", &parts, body.as_bytes());
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn query(ec2: &Ec2, service: &str, body: &str) -> (u16, String) {
    send(ec2, parts("/", &[("authorization", &scope(service))]), body).await
}

async fn target(ec2: &Ec2, target: &str, body: &serde_json::Value) -> (u16, serde_json::Value) {
    let (status, answer) = send(ec2, parts("/", &[("x-amz-target", target)]), &body.to_string()).await;
    (status, serde_json::from_str(&answer).unwrap())
}

#[test]
fn a_form_becomes_a_typed_request() {
    let form = "Action=CreateFleet&Version=2016-11-15&Type=instant&ClientToken=t&DryRun=true\
        &LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId=lt-1\
        &LaunchTemplateConfigs.1.Overrides.2.InstanceType=b&LaunchTemplateConfigs.1.Overrides.1.InstanceType=a\
        &LaunchTemplateConfigs.1.Overrides.10.InstanceType=c&LaunchTemplateConfigs.1.Overrides.1.Priority=1.5\
        &TargetCapacitySpecification.TotalTargetCapacity=3\
        &TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=a%20b&TagSpecification.1.Tag.1.Value=";
    let (action, node) = QueryNode::parse(form.as_bytes()).unwrap();
    assert_eq!(action.as_deref(), Some("CreateFleet"));
    let request: CreateFleet = node.read().unwrap();
    assert!(request.dry_run);
    let types: Vec<_> = request.launch_template_configs[0].overrides.iter().map(|o| o.instance_type.clone()).collect();
    assert_eq!(types, ["a", "b", "c"].map(|name| Some(name.to_owned())), "in the order of their numbers");
    assert_eq!(request.launch_template_configs[0].overrides[0].priority, Some(1.5));
    assert_eq!(request.tag_specifications[0].tags[0].key, "a b");
    assert_eq!(request.tag_specifications[0].tags[0].value.as_deref(), Some(""));
}

#[test]
fn unknown_and_malformed_parameters_are_named() {
    let read = |form: &str| QueryNode::parse(form.as_bytes()).and_then(|(_, node)| node.read::<CreateFleet>());
    let unknown = read("Type=instant&Colour=red").unwrap_err();
    assert_eq!(unknown.code, "UnknownParameter");
    assert!(unknown.message.contains("Colour"), "{unknown}");
    let malformed = read("TargetCapacitySpecification.TotalTargetCapacity=many").unwrap_err();
    assert_eq!(malformed.code, "InvalidParameterValue");
    assert!(malformed.message.contains("many"), "{malformed}");
    assert_eq!(read("A=1&A.B=2").unwrap_err().code, "InvalidParameterCombination");
}

#[tokio::test]
async fn launch_template_data_survives_the_wire_both_ways() {
    let ec2 = ec2();
    let (status, body) = query(
        &ec2,
        "ec2",
        "Action=CreateLaunchTemplate&LaunchTemplateName=wire&LaunchTemplateData.ImageId=ami-1\
         &LaunchTemplateData.NetworkInterface.1.DeviceIndex=0\
         &LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1=sg-1\
         &LaunchTemplateData.TagSpecification.1.ResourceType=volume\
         &LaunchTemplateData.TagSpecification.1.Tag.1.Key=k&LaunchTemplateData.TagSpecification.1.Tag.1.Value=%3Cv%3E\
         &LaunchTemplateData.MetadataOptions.HttpTokens=required",
    )
    .await;
    assert_eq!(status, 200, "{body}");
    let (_, body) = query(
        &ec2,
        "ec2",
        "Action=DescribeLaunchTemplateVersions&LaunchTemplateName=wire&LaunchTemplateVersion.1=%24Latest",
    )
    .await;
    for part in [
        "<networkInterfaceSet><item><deviceIndex>0</deviceIndex><groupSet><groupId>sg-1</groupId></groupSet></item></networkInterfaceSet>",
        "<tagSpecificationSet><item><resourceType>volume</resourceType><tagSet><item><key>k</key><value>&lt;v&gt;</value></item></tagSet></item></tagSpecificationSet>",
        "<metadataOptions><httpTokens>required</httpTokens></metadataOptions>",
        "<versionNumber>1</versionNumber>",
    ] {
        assert!(body.contains(part), "{part} is not in {body}");
    }
}

#[tokio::test]
async fn an_error_is_ec2s_xml_and_never_a_500_for_the_unknown() {
    let ec2 = ec2();
    let (status, body) = query(&ec2, "ec2", "Action=DescribeInstances&InstanceId.1=i-00000000000000abc").await;
    assert_eq!(status, 400);
    assert!(body.contains("<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>"), "{body}");
    assert!(body.ends_with("</Errors><RequestID>id-1</RequestID></Response>"), "{body}");
    for action in ["DescribeVolumes&VolumeId.1=vol-1", "Nonsense", "ModifyFleet"] {
        let (status, body) = query(&ec2, "ec2", &format!("Action={action}")).await;
        assert_eq!(status, 400);
        assert!(body.contains("<Code>InvalidAction</Code>"), "{body}");
    }
    let (status, body) = query(&ec2, "ec2", "").await;
    assert!(status == 400 && body.contains("MissingAction"), "{body}");
}

#[tokio::test]
async fn instance_profiles_live_in_iam() {
    let ec2 = ec2();
    let name = "InstanceProfileName=p";
    let create = format!("Action=CreateInstanceProfile&{name}&Tags.member.1.Key=a&Tags.member.1.Value=b");
    let (status, body) = query(&ec2, "iam", &create).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.starts_with("<CreateInstanceProfileResponse xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><CreateInstanceProfileResult><InstanceProfile>"), "{body}");
    assert!(body.contains("<Tags><member><Key>a</Key><Value>b</Value></member></Tags>"), "{body}");
    let (status, body) = query(&ec2, "iam", &create).await;
    assert!(status == 409 && body.contains("<Code>EntityAlreadyExists</Code>"), "{body}");
    let role = |action: &str, role: &str| format!("Action={action}RoleToInstanceProfile&{name}&RoleName={role}");
    assert_eq!(query(&ec2, "iam", &role("Add", "missing")).await.0, 404);
    let made = "Action=CreateRole&RoleName=other-node&AssumeRolePolicyDocument=%7B%7D";
    let (status, body) = query(&ec2, "iam", made).await;
    assert!(status == 200 && body.contains(":role/other-node</Arn>"), "{body}");
    assert_eq!(query(&ec2, "iam", made).await.0, 409);
    assert_eq!(query(&ec2, "iam", &role("Add", "demo-node")).await.0, 200);
    let (status, body) = query(&ec2, "iam", &role("Add", "demo-node")).await;
    assert!(status == 409 && body.contains("LimitExceeded"), "{body}");
    let delete = format!("Action=DeleteInstanceProfile&{name}");
    let (_, body) = query(&ec2, "iam", &delete).await;
    assert!(body.contains("<Code>DeleteConflict</Code>"), "{body}");
    assert_eq!(query(&ec2, "iam", &role("Removes", "demo-node")).await.0, 400, "no such action");
    let remove = format!("Action=RemoveRoleFromInstanceProfile&{name}&RoleName=demo-node");
    assert_eq!(query(&ec2, "iam", &remove).await.0, 200);
    assert_eq!(query(&ec2, "iam", &delete).await.0, 200);
    let (status, body) = query(&ec2, "iam", &format!("Action=GetInstanceProfile&{name}")).await;
    assert!(status == 404 && body.contains("<Code>NoSuchEntity</Code>"), "{body}");
}

#[tokio::test]
async fn ssm_pricing_eks_and_sts_answer_on_the_same_port() {
    let mut account: Account = account();
    account.add_cluster("demo", "https://example.invalid", "Y2E=", "1.33", start());
    let ec2 = Ec2::new(account, start());
    let name = "/aws/service/bottlerocket/aws-k8s-1.33/arm64/latest/image_id";
    let (status, answer) = target(&ec2, "AmazonSSM.GetParameter", &json!({ "Name": name })).await;
    assert_eq!(status, 200);
    assert!(answer["Parameter"]["Value"].as_str().unwrap().starts_with("ami-"));
    let (status, answer) = target(&ec2, "AmazonSSM.GetParameter", &json!({ "Name": "/none" })).await;
    assert_eq!((status, &answer["__type"]), (400, &json!("ParameterNotFound")));
    let (status, answer) = target(&ec2, "AmazonSSM.PutParameter", &json!({})).await;
    assert_eq!((status, &answer["__type"]), (404, &json!("UnknownOperationException")));

    let (status, cluster) = send(&ec2, parts("/clusters/demo", &[]), "").await;
    let cluster: serde_json::Value = serde_json::from_str(&cluster).unwrap();
    assert_eq!(status, 200);
    assert_eq!(cluster["cluster"]["certificateAuthority"]["data"], "Y2E=");
    assert_eq!(cluster["cluster"]["kubernetesNetworkConfig"]["serviceIpv4Cidr"], "172.20.0.0/16");
    assert_eq!(send(&ec2, parts("/clusters/none", &[]), "").await.0, 404);

    let presigned = "/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Credential=AKID%2F20260105%2Fus-east-1%2Fsts%2Faws4_request";
    let (status, identity) = send(&ec2, parts(presigned, &[]), "").await;
    assert!(status == 200 && identity.contains("<Account>000000000000</Account>"), "{identity}");
}

#[tokio::test]
async fn access_policies_belong_to_access_entries() {
    const ROLE: &str = "arn:aws:iam::000000000000:role/teams/installer";
    const POLICY: &str = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy";
    let mut account: Account = account();
    account.add_cluster("demo", "https://example.invalid", "Y2E=", "1.33", start());
    account.clusters[0].access_entries.insert(ROLE.to_owned(), std::collections::BTreeMap::new());
    let ec2 = Ec2::new(account, start());
    let encoded = |arn: &str| arn.replace(':', "%3A").replace('/', "%2F");
    let of = |role: &str| format!("/clusters/demo/access-entries/{}/access-policies", encoded(role));
    let call = async |method: Method, path: String, body: &str| {
        let mut parts = parts(&path, &[]);
        parts.method = method;
        let (status, answer) = send(&ec2, parts, body).await;
        (status, serde_json::from_str::<serde_json::Value>(&answer).unwrap())
    };
    let body = json!({ "policyArn": POLICY, "accessScope": { "type": "cluster" } }).to_string();
    let list = async || call(Method::GET, of(ROLE), "").await.1["associatedAccessPolicies"].clone();

    let (status, answer) = call(Method::POST, of(&format!("{ROLE}-of-another")), &body).await;
    assert_eq!((status, &answer["__type"]), (404, &json!("ResourceNotFoundException")), "there is no such entry");
    for _ in 0..2 {
        assert_eq!(call(Method::POST, of(ROLE), &body).await.0, 200, "an association may be repeated");
        assert_eq!(list().await[0]["policyArn"], POLICY);
        assert_eq!(list().await[0]["accessScope"]["type"], "cluster");
    }
    let one = format!("{}/{}", of(ROLE), encoded(POLICY));
    assert_eq!(call(Method::DELETE, one.clone(), "").await, (200, json!({})));
    assert_eq!(list().await, json!([]));
    assert_eq!(call(Method::DELETE, one, "").await.1["__type"], "ResourceNotFoundException");
    assert_eq!(call(Method::POST, of(ROLE), "{}").await.1["__type"], "InvalidParameterException");

    ec2.change_account(|account| account.clusters[0].authentication_mode = "CONFIG_MAP".to_owned());
    let (status, answer) = call(Method::POST, of(ROLE), &body).await;
    assert_eq!((status, &answer["__type"]), (400, &json!("InvalidRequestException")));
}

#[tokio::test]
async fn the_price_list_is_paged_filtered_and_strict() {
    let ec2 = ec2();
    let filter = |field: &str, value: &str| json!({ "Type": "TERM_MATCH", "Field": field, "Value": value });
    let mut request = json!({ "ServiceCode": "AmazonEC2", "MaxResults": 2, "Filters": [filter("tenancy", "Shared")] });
    let mut prices = Vec::new();
    loop {
        let (status, answer) = target(&ec2, "AWSPriceListService.GetProducts", &request).await;
        assert_eq!(status, 200, "{answer}");
        for document in answer["PriceList"].as_array().unwrap() {
            let product: serde_json::Value = serde_json::from_str(document.as_str().unwrap()).unwrap();
            let term = product["terms"]["OnDemand"].as_object().unwrap().values().next().unwrap();
            let dimension = term["priceDimensions"].as_object().unwrap().values().next().unwrap();
            let price: f64 = dimension["pricePerUnit"]["USD"].as_str().unwrap().parse().unwrap();
            prices.push((product["product"]["attributes"]["instanceType"].as_str().unwrap().to_owned(), price));
        }
        if answer["NextToken"].is_null() {
            break;
        }
        request["NextToken"] = answer["NextToken"].clone();
    }
    assert_eq!(prices, [("m5.large", 0.096), ("m6g.large", 0.077), ("m6i.large", 0.1)].map(|(n, p)| (n.to_owned(), p)));
    let nothing = json!({ "ServiceCode": "AmazonEC2", "Filters": [filter("operatingSystem", "Windows")] });
    let (_, answer) = target(&ec2, "AWSPriceListService.GetProducts", &nothing).await;
    assert_eq!(answer["PriceList"], json!([]));
    let unknown = json!({ "ServiceCode": "AmazonEC2", "Filters": [filter("colour", "red")] });
    let (status, answer) = target(&ec2, "AWSPriceListService.GetProducts", &unknown).await;
    assert_eq!((status, &answer["__type"]), (400, &json!("InvalidParameterException")));
}

/// The requests of eks-node-viewer (pkg/aws/pricing.go).
#[tokio::test]
async fn eks_node_viewer_gets_prices() {
    let ec2 = ec2();
    let filters = |pairs: &[(&str, &str)]| -> serde_json::Value {
        pairs.iter().map(|(field, value)| json!({ "Type": "TERM_MATCH", "Field": field, "Value": value })).collect()
    };
    let get = async |code: &str, pairs: &[(&str, &str)]| {
        let request = json!({ "ServiceCode": code, "MaxResults": 100, "Filters": filters(pairs) });
        let (status, answer) = target(&ec2, "AWSPriceListService.GetProducts", &request).await;
        assert_eq!(status, 200, "{answer}");
        answer["PriceList"].as_array().unwrap().len()
    };
    let common = [
        ("regionCode", "us-east-1"),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
    ];
    let shared = [&common[..], &[("tenancy", "Shared"), ("productFamily", "Compute Instance")]].concat();
    assert_eq!(get("AmazonEC2", &shared).await, 3);
    let metal = [&common[..], &[("tenancy", "Dedicated"), ("productFamily", "Compute Instance (bare metal)")]].concat();
    assert_eq!(get("AmazonEC2", &metal).await, 0);
    let auto_mode = [("operation", "EKSAutoUsage"), ("regionCode", "us-west-2")];
    assert_eq!(get("AmazonEKS", &auto_mode).await, 0);
    assert_eq!(get("AmazonEKS", &[("regionCode", "us-east-1")]).await, 0, "Fargate");
    let (status, _) = target(&ec2, "AWSPriceListService.GetProducts", &json!({ "ServiceCode": "AmazonS3" })).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn the_catalogs_types_come_in_pages_of_a_hundred() {
    let facts = super::super::RegionFacts::from_catalog(nodeless_catalog::facts::Facts::embedded().unwrap());
    let ec2 = Ec2::new(Account::for_cluster("000000000000", facts, "demo", "1.33", start()), start());
    let (status, body) = query(&ec2, "ec2", "Action=DescribeInstanceTypes").await;
    assert_eq!(status, 200);
    assert_eq!(body.matches("<vCpuInfo>").count(), 100);
    assert!(body.contains("<nextToken>"), "more to come");
    let (_, body) = query(&ec2, "ec2", "Action=DescribeInstanceTypes&InstanceType.1=g5.xlarge").await;
    for part in [
        "<defaultVCpus>4</defaultVCpus>",
        "<gpus><item>",
        "<name>A10G</name>",
        "<supportedArchitectures><item>x86_64</item></supportedArchitectures>",
    ] {
        assert!(body.contains(part), "{part} is not in {body}");
    }
    let (status, body) = query(&ec2, "ec2", "Action=DescribeInstanceTypes&InstanceType.1=x1.none").await;
    assert!(status == 400 && body.contains("<Code>InvalidInstanceType</Code>"), "{body}");
}

#[test]
fn the_request_types_read_what_they_write() {
    let request = super::super::tests::template("round");
    let text = serde_json::to_value(&request).unwrap();
    let back: CreateLaunchTemplate = serde_json::from_value(text).unwrap();
    assert_eq!(back, request);
}
