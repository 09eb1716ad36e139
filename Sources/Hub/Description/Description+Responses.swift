extension Description {
    /// The shared descriptions of answers whose status is not 200.
    static let responses = #"""
        {
          "Malformed": {
            "description": "The request does not match the description.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Unauthenticated": {
            "description": "The token is missing or not valid.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Code": {
            "description": "The code is wrong, used or expired.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Forbidden": {
            "description": "The account's role in the volume does not allow this.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "NotFound": {
            "description": "The thing does not exist, or the account is not a member of it.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Method": {
            "description": "The path does not support this method.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Conflict": {
            "description": "Nothing was applied: chunks are missing or were collected, or a \#
        number was skipped, or the id of a device is already used.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Gone": {
            "description": "An epoch has changed, or the device was copied.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "TooLarge": {
            "description": "The request exceeds a limit of the hub.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "ContentType": {
            "description": "The content type of the body is not supported.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "TooMany": {
            "description": "There are too many requests; wait.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Failed": {
            "description": "The hub failed and has logged the reason.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Busy": {
            "description": "The hub is busy, or cannot reach its database; try again.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          },
          "Full": {
            "description": "The hub's disk is full; nothing was applied.",
            "content": {"application/json": {"schema": {"$ref": \#
        "#/components/schemas/Failure"}}}
          }
        }
        """#
}
